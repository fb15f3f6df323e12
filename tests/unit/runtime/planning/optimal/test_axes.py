"""The values of a dimension that may become rungs, which are candidates for bucket sizes."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeShapeSpace, PromptShapeSpace, ShapeSpace
from gaudi_runtime.planning.optimal.axes import Axes, cells_of_axes, choose_axes, round_to_axes


def prompts(
    length: int, tokens: int, prefills: int = 1, block: int = 128, *, context: bool = False
) -> PromptShapeSpace:
    limits = Limits(
        max_model_len=length,
        max_num_seqs=8,
        max_num_prefill_seqs=prefills,
        max_num_batched_tokens=tokens,
        block_size=block,
    )
    return PromptShapeSpace(limits, with_context=context)


def decodes(seqs: int, kv_blocks: int) -> DecodeShapeSpace:
    return DecodeShapeSpace(Limits(max_model_len=2048, max_num_seqs=seqs, max_num_batched_tokens=2048), kv_blocks)


ALL_512 = {1: (1000,)}


@pytest.mark.parametrize(
    ("space", "axes"),
    [
        (prompts(1000, 2048), ([1], [128, 256, 384, 512, 640, 768, 896, 1000], [0])),
        (prompts(1024, 512), ([1], [128, 256, 384, 512], [0])),
        (prompts(512, 512, context=True), ([1], [128, 256, 384, 512], [0, 1, 2, 3, 4])),
        (prompts(256, 512, prefills=5), ([1, 2, 3, 4, 5], [128, 256], [0])),
        (prompts(1, 1, context=True), ([1], [1], [0])),
        (decodes(3, 7), ([1, 2, 3], [1], [1, 2, 3, 4, 5, 6, 7])),
    ],
)
def test_small_axis_has_all_multiples_of_the_step(space: ShapeSpace, axes: Axes) -> None:
    assert choose_axes(space, {}) == axes


def test_values_are_evenly_spaced_up_to_512_multiples() -> None:
    assert choose_axes(prompts(513, 513, block=1), {}, ALL_512)[1] == list(range(1, 514))


def test_values_beyond_512_multiples_have_seven_significant_digits() -> None:
    digits = [*range(1, 128), *range(128, 256, 2), *range(256, 512, 4), *range(512, 1024, 8)]
    assert choose_axes(prompts(1024, 1024, block=1), {}, ALL_512)[1] == [*digits, 1024]
    assert choose_axes(prompts(1023, 1023, block=1), {}, ALL_512)[1] == [*digits, 1023]
    assert choose_axes(prompts(3072, 3072, block=3), {}, ALL_512)[1] == [*(3 * each for each in digits), 3072]
    assert choose_axes(prompts(3073, 3073, block=3), {}, ALL_512)[1] == [*(3 * each for each in digits), 3072, 3073]


def padded(values: Sequence[int], weights: dict[int, int]) -> float:
    return sum(weight * next(each for each in values if each >= value) for value, weight in weights.items())


@given(st.dictionaries(st.integers(1, 8), st.integers(1, 9), min_size=2), st.integers(1, 8))
def test_chosen_values_pad_little_more_than_the_best(weights: dict[int, int], count: int) -> None:
    traffic = {Bucket(1, 10 * value - 3, 0): float(weight) for value, weight in weights.items()}
    chosen = choose_axes(prompts(80, 80, block=10), traffic, {1: (count,)})[1]
    tens = {10 * value: weight for value, weight in weights.items()}
    choices = ((*some, 80) for some in combinations(range(10, 80, 10), count - 1))
    assert len(chosen) <= count
    assert padded(chosen, tens) <= 1.5 * min(padded(each, tens) for each in choices)


def test_weight_on_the_largest_value_does_not_change_the_axis() -> None:
    traffic = {Bucket(1, 7, 0): 1.0, Bucket(1, 77, 0): 100.0}
    assert choose_axes(prompts(80, 80, block=10), traffic, {1: (2,)})[1] == [10, 80]


def test_dimension_without_variation_has_its_value_and_the_largest() -> None:
    traffic = {Bucket(1, query, 3): 1.0 for query in (200, 900)}
    assert choose_axes(prompts(1000, 1000, context=True), traffic)[2] == [3, 8]


def test_dimension_with_only_the_largest_value_has_one_value() -> None:
    assert choose_axes(prompts(1000, 2048), {Bucket(1, 1000, 0): 1.0})[1] == [1000]


def test_shape_that_rounding_makes_inadmissible_is_not_rounded() -> None:
    space = prompts(512, 1024, prefills=4)
    axes: Axes = ([2, 4], [256, 512], [0])
    rounded, kept = cells_of_axes(space, {Bucket(3, 300, 0): 1.0, Bucket(1, 300, 0): 2.0}, axes)
    assert (rounded, kept) == ({Bucket(2, 512, 0): 2.0}, {Bucket(3, 300, 0): 1.0})


AXES: Axes = ([1, 2, 4], [128, 256, 512], [0, 1, 8])


def test_shapes_are_rounded_up_to_axes_and_added() -> None:
    traffic = {Bucket(1, 100, 0): 1.0, Bucket(1, 128, 0): 2.0, Bucket(3, 129, 2): 4.0, Bucket(5, 600, 9): 8.0}
    assert round_to_axes(traffic, AXES) == {Bucket(1, 128, 0): 3.0, Bucket(4, 256, 8): 4.0, Bucket(4, 512, 8): 8.0}
