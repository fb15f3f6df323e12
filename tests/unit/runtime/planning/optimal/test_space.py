"""Admissible shapes against a scan, and which values of a dimension may become rungs."""

from collections.abc import Sequence
from itertools import chain, combinations, product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.planning.optimal.space import (
    Axes,
    DecodeSpace,
    PromptSpace,
    Row,
    Space,
    choose_axes,
    smooth,
    to_axes,
)

MOST = 12


@st.composite
def small_limits(draw: st.DrawFn) -> Limits:
    return Limits(
        max_model_len=draw(st.integers(1, 9)),
        max_num_seqs=draw(st.integers(1, 5)),
        max_num_prefill_seqs=draw(st.integers(1, 5)),
        max_num_batched_tokens=draw(st.integers(1, 12)),
        block_size=draw(st.integers(1, 3)),
        contiguous_paged_attention=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
    )


PROMPTS = st.builds(PromptSpace, small_limits(), with_context=st.booleans())
DECODES = st.builds(DecodeSpace, small_limits(), st.integers(1, 7))
SPACES = PROMPTS | DECODES


def scan(space: Space) -> list[Bucket]:
    """Every admissible shape, one by one; a block that is cached in part counts."""
    return [Bucket(*shape) for shape in (_prompts(space) if isinstance(space, PromptSpace) else _decodes(space))]


def _prompts(space: PromptSpace) -> list[tuple[int, int, int]]:
    limits = space.limits
    sizes, lengths = range(1, limits.max_num_prefill_seqs + 1), range(1, limits.max_model_len + 1)
    found = []
    for size, query in product(sizes, lengths):
        cached = range(limits.max_model_len - query + 1) if space.with_context else range(1)
        if size * query <= limits.max_num_batched_tokens:
            found += [(size, query, blocks) for blocks in {ceil(each / limits.block_size) for each in cached}]
    return found


def _decodes(space: Space) -> list[tuple[int, int, int]]:
    assert isinstance(space, DecodeSpace)
    limits, kv_blocks = space.limits, space.kv_blocks
    longest = ceil(limits.max_model_len / limits.block_size)
    found = []
    for size in range(1, min(limits.max_num_seqs, kv_blocks) + 1):
        most = min(size * longest, 3 * kv_blocks if limits.prefix_caching else kv_blocks)
        most = kv_blocks if limits.contiguous_paged_attention else most
        found += [(size, 1, blocks) for blocks in range(size, most + 1)]
    return found


@given(SPACES)
def test_space_admits_what_scan_finds(space: Space) -> None:
    grid = map(Bucket._make, product(range(7), range(MOST), range(-1, 50)))
    assert {shape for shape in grid if space.admits(shape)} == set(scan(space))


@given(SPACES)
def test_bounds_are_least_and_most_of_all_shapes(space: Space) -> None:
    assert space.bounds() == tuple(Row(min(values), max(values)) for values in zip(*scan(space), strict=True))


@given(SPACES)
def test_corners_are_largest_sizes_of_each_longest_query(space: Space) -> None:
    shapes = scan(space)
    longest = {size: max(each.query_len for each in shapes if each.batch_size == size) for size, _, _ in shapes}
    largest = {query: size for size, query in sorted(longest.items())}
    most = max(each.num_blocks for each in shapes)
    assert space.corners() == tuple(Bucket(size, query, most) for query, size in largest.items())


@given(SPACES)
def test_batch_sizes_before_the_last_corner_are_forced(space: Space) -> None:
    assert list(space.forced()) == [corner.batch_size for corner in space.corners()[:-1]]


@given(SPACES, st.data())
def test_span_holds_what_the_row_of_sizes_needs(space: Space, data: st.DataObject) -> None:
    shapes = scan(space)
    top = data.draw(st.integers(1, max(shapes).batch_size))
    low = data.draw(st.integers(1, top))
    ends = {max(each.query_len for each in shapes if each.batch_size == size) for size in (low, top)}
    assert space.span(()) == Row(1, max(shapes).batch_size)
    assert space.span((Row(low, top),)) == (Row(1, ends.pop()) if len(ends) == 1 else None)


@given(PROMPTS, st.data())
def test_span_of_a_prompt_row_ends_with_its_most_context(space: PromptSpace, data: st.DataObject) -> None:
    low = data.draw(st.integers(1, space.bounds()[1].top))
    most = max(each.num_blocks for each in scan(space) if each.query_len >= low)
    assert space.span((Row(1, 1), Row(low, space.bounds()[1].top))) == Row(0, most)


@given(DECODES, st.data())
def test_span_of_a_decode_row_begins_at_possible_blocks(space: DecodeSpace, data: st.DataObject) -> None:
    top = data.draw(st.integers(1, space.bounds()[0].top))
    most = max(each.num_blocks for each in scan(space) if each.batch_size == top)
    least = 1 if space.limits.contiguous_paged_attention else top
    assert space.span((Row(1, top), Row(1, 1))) == Row(least, most)


def prompts(length: int, tokens: int, prefills: int = 1, block: int = 128, *, context: bool = False) -> PromptSpace:
    limits = Limits(
        max_model_len=length,
        max_num_seqs=8,
        max_num_prefill_seqs=prefills,
        max_num_batched_tokens=tokens,
        block_size=block,
    )
    return PromptSpace(limits, with_context=context)


def decodes(seqs: int, kv_blocks: int) -> DecodeSpace:
    return DecodeSpace(Limits(max_model_len=2048, max_num_seqs=seqs, max_num_batched_tokens=2048), kv_blocks)


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
def test_values_of_few_are_all_multiples_of_step(space: Space, axes: Axes) -> None:
    assert choose_axes(space, {}) == axes


def test_values_are_even_up_to_512_multiples() -> None:
    assert choose_axes(prompts(513, 513, block=1), {}, ALL_512)[1] == list(range(1, 514))


def test_values_beyond_512_multiples_have_seven_significant_digits() -> None:
    digits = [*range(1, 128), *range(128, 256, 2), *range(256, 512, 4), *range(512, 1024, 8)]
    assert choose_axes(prompts(1024, 1024, block=1), {}, ALL_512)[1] == [*digits, 1024]
    assert choose_axes(prompts(1023, 1023, block=1), {}, ALL_512)[1] == [*digits, 1023]
    assert choose_axes(prompts(3072, 3072, block=3), {}, ALL_512)[1] == [*(3 * each for each in digits), 3072]
    assert choose_axes(prompts(3073, 3073, block=3), {}, ALL_512)[1] == [*(3 * each for each in digits), 3072, 3073]


def test_thinned_batch_sizes_keep_those_that_the_budget_forces() -> None:
    space = prompts(512, 1024, prefills=6)
    assert space.forced() == [2, 3, 4, 5]
    assert choose_axes(space, {}, {2: (1, 2)})[0] == [2, 3, 4, 5, 6]


def padded(values: Sequence[int], weights: dict[int, int]) -> float:
    return sum(weight * next(each for each in values if each >= value) for value, weight in weights.items())


@given(st.dictionaries(st.integers(1, 8), st.integers(1, 9), min_size=1), st.integers(1, 8))
def test_thinned_values_are_those_padded_least_alone(weights: dict[int, int], count: int) -> None:
    traffic = {Bucket(1, 10 * value - 3, 0): float(weight) for value, weight in weights.items()}
    chosen = choose_axes(prompts(80, 80, block=10), traffic, {1: (count,)})[1]
    tens = {10 * value: weight for value, weight in weights.items()}
    choices = ((*some, 80) for some in combinations(range(10, 80, 10), count - 1))
    assert len(chosen) == count
    assert padded(chosen, tens) == min(padded(each, tens) for each in choices)


def test_weight_of_the_largest_value_asks_for_no_other() -> None:
    traffic = {Bucket(1, 7, 0): 1.0, Bucket(1, 77, 0): 100.0}
    assert choose_axes(prompts(80, 80, block=10), traffic, {1: (2,)})[1] == [10, 80]


AXES: Axes = ([1, 2, 4], [128, 256, 512], [0, 1, 8])


def test_shapes_are_rounded_up_to_axes_and_added() -> None:
    traffic = {Bucket(1, 100, 0): 1.0, Bucket(1, 128, 0): 2.0, Bucket(3, 129, 2): 4.0, Bucket(5, 600, 9): 8.0}
    assert to_axes(traffic, AXES) == {Bucket(1, 128, 0): 3.0, Bucket(4, 256, 8): 4.0, Bucket(4, 512, 8): 8.0}


@given(st.lists(st.builds(Bucket, *map(st.sampled_from, AXES)), min_size=2, max_size=2, unique=True))
@settings(max_examples=20)
def test_smoothing_of_two_shapes_is_sum_of_both(cells: list[Bucket]) -> None:
    one, other = (smooth({cell: weight}, AXES) for cell, weight in zip(cells, (3.0, 5.0), strict=True))
    both = smooth(dict(zip(cells, (3.0, 5.0), strict=True)), AXES)
    assert both == pytest.approx({cell: one.get(cell, 0) + other.get(cell, 0) for cell in chain(one, other)})
