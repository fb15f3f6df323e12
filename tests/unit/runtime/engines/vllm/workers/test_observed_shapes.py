"""The shapes that a worker observes during serving, from the steps of vLLM's scheduler."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.engines.vllm.workers.observed_shapes import (
    ObservedShapes,
    PaddedRun,
    observed_shape,
)
from tests.unit.runtime.engines.vllm.steps import step_of


def test_prompts_of_one_step_are_one_prompt_shape() -> None:
    assert observed_shape(step_of(new={"a": 100, "b": 40}), 128) == ("prompt", 1, 140, 0)


def test_shape_of_a_prompt_step_has_no_context() -> None:
    step = step_of(new={"a": 10}, cached={"b": (129, 50)}, prefix={"a": 256})
    assert observed_shape(step, 128) == ("prompt", 1, 60, 0)


def test_decode_shape_has_the_blocks_including_new_tokens() -> None:
    assert observed_shape(step_of(cached={"a": (128, 1), "b": (127, 1)}), 128) == (
        "decode",
        2,
        1,
        3,
    )


def test_two_tokens_of_one_sequence_are_a_prompt() -> None:
    assert observed_shape(step_of(cached={"a": (128, 2)}), 128) == ("prompt", 1, 2, 0)


def test_decode_tokens_next_to_a_prompt_are_prompt_tokens() -> None:
    assert observed_shape(step_of(new={"a": 30}, cached={"b": (1000, 1)}), 128) == (
        "prompt",
        1,
        31,
        0,
    )


def test_decode_counts_the_context_of_a_prefix_from_the_cache() -> None:
    step = step_of(new={"a": 1}, cached={"b": (127, 1)}, prefix={"a": 128})
    assert observed_shape(step, 128) == ("decode", 2, 1, 3)


def test_counters_are_returned_and_reset() -> None:
    met = ObservedShapes()
    met.count_batch(("decode", 2, 1, 3))
    met.count_batch(("decode", 2, 1, 3))
    met.count_batch(("prompt", 1, 7, 0), compiles=2)
    assert met.pop_rows() == [["decode", [2, 1, 3], None, 2, 0], ["prompt", [1, 7, 0], None, 1, 2]]
    assert met.pop_rows() == []


def test_shape_has_one_row_for_each_bucket_it_ran_in() -> None:
    met = ObservedShapes()
    for blocks in (8, 8, 16):
        met.count_batch(("decode", 2, 1, 3), PaddedRun(Bucket(2, 1, blocks), warm=blocks == 8))
    assert met.pop_rows() == [
        ["decode", [2, 1, 3], [2, 1, 8, True], 2, 0],
        ["decode", [2, 1, 3], [2, 1, 16, False], 1, 0],
    ]
