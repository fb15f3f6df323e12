"""Random sampling with seeds on a card: the same recipes for every set of requests with a seed.

vLLM loops over the generators of a step in compiled code, so torch.compile compiles the sampler for each set of rows
that have a seed. Here, the noise of such a step is computed outside of compiled code, and one row at a time.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class SeededRows:
    """The generators of a step by row.

    Dynamo compiles the sampler once for this type and once for vLLM's dictionary, whatever they contain.
    """

    def __init__(self, generators: Mapping[int, "torch.Generator"]) -> None:
        # The plugin pads a batch with copies of its first request. If the copies used its generator, answers to this
        # request would depend on the padding.
        self.generators: dict[int, torch.Generator] = {}
        for row, generator in generators.items():
            if not any(generator is known for known in self.generators.values()):
                self.generators[row] = generator


def replace_random_sampling(mark_step: Callable[[], None]) -> None:
    """Replace vLLM's random sampling for steps with SeededRows.

    `mark_step` ends a sequence of operations that share a recipe.
    """
    import torch

    module = import_module("vllm.v1.sample.ops.topk_topp_sampler")
    sample_plain: Callable[..., torch.Tensor] = module.random_sample

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def sample_seeded(probabilities: "torch.Tensor", rows: SeededRows) -> "torch.Tensor":
        mark_step()
        noise = torch.empty_like(probabilities).exponential_()
        mark_step()
        for row, generator in rows.generators.items():
            of_row = torch.empty_like(probabilities[:1]).exponential_(generator=generator)
            mark_step()
            # A row number in a tensor does not change the recipe.
            noise.index_copy_(0, torch.tensor([row]).to(noise.device), of_row)
            mark_step()
        tokens: torch.Tensor = probabilities.div_(noise).argmax(dim=-1).view(-1)
        mark_step()
        return tokens

    def random_sample(probabilities: "torch.Tensor", generators: Any, *options: Any) -> "torch.Tensor":
        if isinstance(generators, SeededRows):
            tokens: torch.Tensor = sample_seeded(probabilities, generators)
            return tokens
        return sample_plain(probabilities, generators, *options)

    setattr(module, "random_sample", random_sample)  # noqa: B010 - mypy forbids assignments
