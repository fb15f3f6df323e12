"""Generators of seeded requests on a CPU.

If a step computes a chunk that is not the last one of a prompt, vLLM drops the sampled token and rewinds the generator
of the request. A generator on a CPU cannot be rewound: torch raises an error, which ends vLLM's engine core.
"""

import torch


class RewindableGenerator(torch.Generator):
    """A generator on a CPU that vLLM can rewind. It restarts, because vLLM rewinds only before the first token."""

    def get_offset(self) -> int:
        """Return 0, because a generator on a CPU has no offset."""
        return 0

    def set_offset(self, offset: int) -> torch.Generator:
        """Restart the generator from its seed, and return it."""
        return self.manual_seed(self.initial_seed())


class RewindableGenerators(dict[int, torch.Generator]):
    """The generators of a batch by row. Each generator that vLLM adds is replaced by one that vLLM can rewind."""

    def __setitem__(self, row: int, generator: torch.Generator) -> None:
        """Add a generator. A replacement starts at the seed."""
        if not isinstance(generator, RewindableGenerator):
            replacement = RewindableGenerator(device="cpu")
            replacement.manual_seed(generator.initial_seed())
            generator = replacement
        super().__setitem__(row, generator)
