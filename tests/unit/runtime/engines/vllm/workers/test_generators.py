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


def test_request_that_is_added_again_continues_its_samples() -> None:
    """vLLM removes a request at preemption and adds it later. Then it rewinds the chunks of the recomputed prompt."""
    generators, request, uninterrupted = RewindableGenerators(), seeded(), seeded()
    generators[0] = request
    assert samples(generators.pop(0)) == samples(uninterrupted)
    generators[3] = request
    dropped = samples(generators[3])
    generators[3].set_offset(generators[3].get_offset() - 4)
    assert samples(generators[3]) == dropped == samples(uninterrupted)
