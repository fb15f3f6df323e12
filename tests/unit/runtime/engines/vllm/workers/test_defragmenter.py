"""Our worker warms the plugin's defragmenter, and replaces it when serving starts."""

import pytest

from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.driven import verbs_on
from tests.unit.runtime.engines.vllm.workers.stand_in import plugin


def test_sampler_and_defragmenter_are_warmed_by_the_plugin() -> None:
    card = Card()
    verbs = verbs_on(card)
    assert verbs.sampler() == verbs.defragmenter() == {"done": True}
    assert [card.log[0], card.log[-1]] == ["warmup_sampler()", "defragmenter.warmup()"]


def test_serving_starts_with_a_new_defragmenter() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    used = runner.defragmenter
    verbs.start_serving()
    assert runner.defragmenter is not used
    assert (runner.defragmenter.kv_caches, runner.defragmenter.block_size) == (used.kv_caches, used.block_size)


@pytest.mark.parametrize(("graphed", "warmed", "times"), [(True, True, 2), (False, True, 1), (True, False, 0)])
def test_swaps_with_graphs_are_warmed_again(graphed: bool, warmed: bool, times: int) -> None:
    """Serving starts with a new defragmenter, which does not have the graphs of the previous defragmenter."""
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    if warmed:
        verbs.defragmenter()
    runner.defragmenter.graphed = graphed
    verbs.start_serving()
    assert card.log.count("defragmenter.warmup()") == times
