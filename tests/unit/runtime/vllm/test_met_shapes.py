"""The shapes that a worker meets while it serves, from what vLLM's scheduler hands it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.engines.vllm.workers.observed_shapes import MetShapes, Scheduled, batches_of, scheduled, shape_of
from tests.unit.runtime.vllm.steps import CachedRequests, Step, step_of

SEQUENCES = st.lists(st.builds(Scheduled, st.integers(0, 5000), st.integers(1, 300)), min_size=1, max_size=20)


def test_new_requests_are_prompts_without_context() -> None:
    assert shape_of(scheduled(step_of(new={"a": 100, "b": 40})), 128) == ("prompt", 2, 100, 0)


def test_the_longest_context_of_a_prompt_counts_in_blocks() -> None:
    step = step_of(new={"a": 10}, cached={"b": (129, 50)}, prefix={"a": 256})
    assert shape_of(scheduled(step), 128) == ("prompt", 2, 50, 2)


def test_decode_counts_the_blocks_of_whole_batch_with_new_token() -> None:
    assert shape_of(scheduled(step_of(cached={"a": (128, 1), "b": (127, 1)})), 128) == ("decode", 2, 1, 3)


def test_two_tokens_of_one_sequence_are_a_prompt() -> None:
    assert shape_of(scheduled(step_of(cached={"a": (128, 2)})), 128) == ("prompt", 1, 2, 1)


def test_one_prompt_makes_the_step_a_prompt() -> None:
    assert shape_of(scheduled(step_of(new={"a": 30}, cached={"b": (1000, 1)})), 128) == ("prompt", 2, 30, 8)


def test_request_that_the_step_does_not_describe_counts_without_context() -> None:
    assert scheduled(Step([], CachedRequests([], []), {"a": 3}, 3)) == [Scheduled(0, 3)]


def test_card_runs_decodes_first_and_prompts_a_few_at_once() -> None:
    sequences = [Scheduled(0, 10), Scheduled(5, 1), Scheduled(0, 20), Scheduled(256, 30), Scheduled(127, 1)]
    assert batches_of(sequences, 128, 2) == [("decode", 2, 1, 2), ("prompt", 2, 20, 0), ("prompt", 1, 30, 2)]


def test_an_empty_step_is_no_batch() -> None:
    assert batches_of(scheduled(step_of()), 128, 2) == []


@settings(max_examples=60)
@given(SEQUENCES, st.integers(1, 4))
def test_every_sequence_is_in_one_batch(sequences: list[Scheduled], prompts_at_once: int) -> None:
    batches = batches_of(sequences, 128, prompts_at_once)
    assert sum(size for _, size, _, _ in batches) == len(sequences)
    assert all(size <= prompts_at_once for phase, size, _, _ in batches if phase == "prompt")
    assert [phase for phase, *_ in batches].count("decode") <= 1


def test_counts_are_handed_over_and_begin_anew() -> None:
    met = MetShapes()
    met.met(("decode", 2, 1, 3))
    met.met(("decode", 2, 1, 3))
    met.compiled(("prompt", 1, 7, 0), 2)
    assert met.take() == {"met": [["decode", 2, 1, 3, 2]], "compiled": [["prompt", 1, 7, 0, 2]]}
    assert met.take() == {"met": [], "compiled": []}


def test_a_step_without_a_compile_is_no_row_of_compiles() -> None:
    met = MetShapes()
    met.compiled(("prompt", 1, 7, 0), 0)
    assert met.take()["compiled"] == []
