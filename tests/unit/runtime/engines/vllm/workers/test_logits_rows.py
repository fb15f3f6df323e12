"""The logits of a prompt batch have a row per prompt, so warm-up runs every number of prompts."""

import pytest

from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.stand_in import bridge, plugin


@pytest.mark.parametrize(
    ("prompts", "batches"),
    [
        ([[1, 128, 0], [1, 256, 0]], []),
        ([[1, 128, 0], [2, 128, 0]], []),
        ([[1, 128, 0], [2, 128, 0], [4, 128, 0], [4, 256, 0]], ["(4, 128, 0)"]),
        ([[1, 256, 0], [4, 128, 0]], ["(4, 128, 0)", "(4, 128, 0)"]),
    ],
)
def test_sampler_warm_up_runs_batch_sizes_without_own_bucket(prompts: list[list[int]], batches: list[str]) -> None:
    card = Card()
    verbs = HpuVerbs(plugin(card), bridge(card))
    verbs.plan(prompts, [[1, 1, 8]])
    card.log.clear()
    verbs.sampler()
    piece, *others = card.log[1:]
    assert piece.startswith("_prepare_dummy_scenario((1, ")
    assert others == [f"_prepare_dummy_scenario({each}, None)" for each in batches]
