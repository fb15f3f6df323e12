"""Generators of seeded requests on a CPU, which vLLM rewinds after a chunk of a prompt."""

import torch

from gaudi_runtime.engines.vllm.workers.generators import RewindableGenerators

SEED = 7


def seeded() -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed(SEED)
    return generator


def samples(generator: torch.Generator) -> list[float]:
    return list(torch.rand(3, generator=generator).tolist())


def test_rewound_generator_samples_as_if_it_had_not_sampled() -> None:
    generators = RewindableGenerators()
    generators[0] = seeded()
    first = samples(generators[0])
    generators[0].set_offset(generators[0].get_offset() - 4)
    assert samples(generators[0]) == first == samples(seeded())


def test_row_that_moves_keeps_its_generator() -> None:
    generators = RewindableGenerators()
    generators[0] = seeded()
    generator = generators[0]
    generators[1] = generators.pop(0)
    assert generators[1] is generator
