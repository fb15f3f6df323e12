"""Admissible shapes compared with a scan of all shapes."""

from itertools import product
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeShapeSpace, PromptShapeSpace, ShapeBounds, ShapeSpace

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


PROMPTS = st.builds(PromptShapeSpace, small_limits(), with_context=st.booleans())
DECODES = st.builds(DecodeShapeSpace, small_limits(), st.integers(1, 7))
SPACES = PROMPTS | DECODES


def scan(space: ShapeSpace) -> list[Bucket]:
    """Return every admissible shape. A partly cached block counts as a block."""
    return [Bucket(*shape) for shape in (_prompts(space) if isinstance(space, PromptShapeSpace) else _decodes(space))]


def _prompts(space: PromptShapeSpace) -> list[tuple[int, int, int]]:
    limits = space.limits
    sizes, lengths = range(1, limits.max_num_prefill_seqs + 1), range(1, limits.max_model_len + 1)
    found = []
    for size, query in product(sizes, lengths):
        cached = range(limits.max_model_len - query + 1) if space.with_context else range(1)
        if size * query <= limits.max_num_batched_tokens:
            found += [(size, query, blocks) for blocks in {ceil(each / limits.block_size) for each in cached}]
    return found


def _decodes(space: ShapeSpace) -> list[tuple[int, int, int]]:
    assert isinstance(space, DecodeShapeSpace)
    limits, kv_blocks = space.limits, space.kv_blocks
    longest = ceil(limits.max_model_len / limits.block_size)
    found = []
    for size in range(1, min(limits.max_num_seqs, kv_blocks) + 1):
        most = min(size * longest, 3 * kv_blocks if limits.prefix_caching else kv_blocks)
        most = kv_blocks if limits.contiguous_paged_attention else most
        found += [(size, 1, blocks) for blocks in range(size, most + 1)]
    return found


@given(SPACES)
def test_admitted_shapes_equal_those_of_a_scan(space: ShapeSpace) -> None:
    grid = map(Bucket._make, product(range(7), range(MOST), range(-1, 50)))
    assert {shape for shape in grid if space.admits(shape)} == set(scan(space))


@given(SPACES)
def test_bounds_are_minimum_and_maximum_of_all_shapes(space: ShapeSpace) -> None:
    assert space.bounds() == tuple(ShapeBounds(min(values), max(values)) for values in zip(*scan(space), strict=True))


@given(SPACES)
def test_corners_have_the_largest_batch_of_each_longest_query(space: ShapeSpace) -> None:
    shapes = scan(space)
    longest = {size: max(each.query_len for each in shapes if each.batch_size == size) for size, _, _ in shapes}
    largest = {query: size for size, query in sorted(longest.items())}
    most = max(each.num_blocks for each in shapes)
    assert space.covering_buckets() == tuple(Bucket(size, query, most) for query, size in largest.items())
