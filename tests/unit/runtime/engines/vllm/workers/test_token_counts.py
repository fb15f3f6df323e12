"""The numbers of tokens with a graph on a CPU, and the padding of a step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.engines.vllm.workers.cpu import TokenCounts

COUNTS = st.lists(st.integers(1, 300), max_size=12)


def counts_of(tokens: list[int]) -> TokenCounts:
    counts = TokenCounts()
    for each in tokens:
        counts.add(each)
    return counts


@settings(max_examples=60)
@given(COUNTS, st.integers(1, 400))
def test_step_uses_the_smallest_sufficient_graph_or_compiles(tokens: list[int], step: int) -> None:
    assert counts_of(tokens).padded_count(step) == min((each for each in tokens if each >= step), default=step)


@settings(max_examples=60)
@given(COUNTS, st.integers(1, 400), st.integers(1, 400))
def test_warm_up_pads_to_the_bucket_and_never_truncates(tokens: list[int], wanted: int, step: int) -> None:
    counts = counts_of(tokens)
    with counts.force_padding(wanted):
        assert counts.padded_count(step) == max(step, wanted)


def test_steps_are_padded_to_graphs_after_the_warm_up_context() -> None:
    counts = counts_of([64])
    with counts.force_padding(128):
        pass
    assert counts.padded_count(10) == 64


def test_failed_warm_up_context_is_reset() -> None:
    counts = counts_of([64])
    with pytest.raises(RuntimeError), counts.force_padding(128):
        raise RuntimeError
    assert counts.padded_count(10) == 64
