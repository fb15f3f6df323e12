"""Generators of seeded requests on a CPU.

If a step computes a chunk that is not the last one of a prompt, vLLM drops the sampled token and rewinds the generator
of the request. A generator on a CPU cannot be rewound: torch raises an error, which ends vLLM's engine core.
"""

from weakref import WeakKeyDictionary

import torch


class RewindableGenerator(torch.Generator):
    """A generator on a CPU that vLLM can rewind to the state that was saved last."""

    def save_state(self) -> None:
        """Save the state to which the generator is rewound."""
        self._saved_state = self.get_state()

    def get_offset(self) -> int:
        """Return 0, because a generator on a CPU has no offset."""
        return 0

    def set_offset(self, offset: int) -> torch.Generator:
        """Restore the saved state, and return the generator."""
        return self.set_state(self._saved_state)


class RewindableGenerators(dict[int, torch.Generator]):
    """The generators of a batch by row. Each generator that vLLM adds is replaced by one that vLLM can rewind."""

    def __init__(self) -> None:
        super().__init__()
        # vLLM adds a request again after preemption. Its generator must then go on where it was.
        self._replacements: WeakKeyDictionary[torch.Generator, RewindableGenerator] = WeakKeyDictionary()

    def __setitem__(self, row: int, generator: torch.Generator) -> None:
        """Add a generator. vLLM does this before the first chunk of a prompt, so the state is saved here."""
        replacement = generator if isinstance(generator, RewindableGenerator) else self._replace(generator)
        replacement.save_state()
        super().__setitem__(row, replacement)

    def _replace(self, generator: torch.Generator) -> RewindableGenerator:
        if generator not in self._replacements:
            self._replacements[generator] = RewindableGenerator(device="cpu")
            self._replacements[generator].manual_seed(generator.initial_seed())
        return self._replacements[generator]
