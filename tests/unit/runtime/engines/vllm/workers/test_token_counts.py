"""The numbers of tokens that have a graph on a CPU, and what a step is padded to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.engines.vllm.workers.cpu import TokenCounts

COUNTS = st.lists(st.integers(1, 300), max_size=12)


def known(tokens: list[int]) -> TokenCounts:
    counts = TokenCounts()
    for each in tokens:
        counts.add(each)
    return counts


@settings(max_examples=60)
@given(COUNTS, st.integers(1, 400))
def test_step_takes_smallest_graph_that_holds_it_or_makes_one(tokens: list[int], step: int) -> None:
    assert known(tokens).padded(step) == min((each for each in tokens if each >= step), default=step)


@settings(max_examples=60)
@given(COUNTS, st.integers(1, 400), st.integers(1, 400))
def test_warm_up_pads_to_exactly_bucket_and_never_cuts_step(tokens: list[int], wanted: int, step: int) -> None:
    counts = known(tokens)
    with counts.exactly(wanted):
        assert counts.padded(step) == max(step, wanted)


def test_after_the_block_steps_take_graphs_again() -> None:
    counts = known([64])
    with counts.exactly(128):
        pass
    assert counts.padded(10) == 64


def test_a_block_that_fails_leaves_no_bucket_behind() -> None:
    counts = known([64])
    with pytest.raises(RuntimeError), counts.exactly(128):
        raise RuntimeError
    assert counts.padded(10) == 64
