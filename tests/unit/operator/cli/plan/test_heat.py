"""The numbers in the cells of a heat map: padding, bytes and requests without a bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.cli.plan.heat import (
    MISS,
    Cell,
    HeatMap,
    bytes_map,
    format_cell_bytes,
    format_cell_count,
    padding_map,
)
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES

LIMITS = Limits(max_model_len=4096, max_num_seqs=16, max_num_prefill_seqs=4, max_num_batched_tokens=4096)
PLAN = make_plan(BucketPolicy(), LIMITS, 3000)
PADDING = padding_map(PLAN, BucketPhase.PROMPT, LIMITS, 3000)


def drawn(heat_map: HeatMap) -> list[Cell | None]:
    return [cell for _, cells in heat_map.rows() for cell in cells]


def test_padding_of_the_first_bucket_averages_all_shorter_prompts() -> None:
    # Prompts of 1 to 128 tokens have 64.5 tokens on average. So 63.5 of the 128 tokens in the bucket are padding.
    assert PADDING.cell((1, 128)) == Cell("50%", 1 - 64.5 / 128)


def test_padding_counts_from_the_next_smaller_bucket() -> None:
    # This bucket serves batches of 3 or 4 prompts with 129 to 256 tokens each.
    cell = PADDING.cell((4, 256))
    assert cell is not None
    assert cell.heat == pytest.approx(1 - 3.5 * 192.5 / (4 * 256))


def test_shapes_padded_to_a_larger_bucket_show_its_cost() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(4, 256, 0)), (Bucket(1, 1, 1),))
    cell = padding_map(plan, BucketPhase.PROMPT, LIMITS, 3000).cell((4, 128))
    assert cell is not None
    assert cell.heat == pytest.approx(1 - 3 * 64.5 / (4 * 256))


def test_shape_without_a_bucket_is_shown_as_a_miss() -> None:
    # Two prompts of 2000 tokens are within the token budget, but their bucket (2, 2304) exceeds the budget.
    assert PLAN.find(BucketPhase.PROMPT, 2, 2000, 0) is None
    assert PADDING.cell((2, 2304)) is MISS


def test_shapes_beyond_the_budget_have_no_cell() -> None:
    assert PADDING.cell((4, 2304)) is None


@given(
    st.sampled_from(RANGED_STRATEGIES),
    st.booleans(),
    st.integers(1, 32),
    st.integers(64, 3000),
)
def test_padding_is_between_zero_and_one(strategy: Strategy, contiguous: bool, seqs: int, blocks: int) -> None:
    limits = Limits(
        max_model_len=2048, max_num_seqs=seqs, max_num_batched_tokens=2048, contiguous_paged_attention=contiguous
    )
    plan = make_plan(BucketPolicy(strategy=strategy), limits, blocks)
    for phase in BucketPhase:
        cells = drawn(padding_map(plan, phase, limits, blocks))
        assert all(cell is None or cell.heat is None or 0 <= cell.heat < 1 for cell in cells)


def test_non_contiguous_decode_needs_a_block_for_each_sequence() -> None:
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": False})
    plan = make_plan(BucketPolicy(), limits, 3000)
    padding = padding_map(plan, BucketPhase.DECODE, limits, 3000)
    assert padding.cell((1, 1)) is not None
    assert padding.cell((2, 1)) is None


def test_contiguous_decode_has_a_bucket_for_every_block_count() -> None:
    assert MISS not in drawn(padding_map(PLAN, BucketPhase.DECODE, LIMITS, 3000))


def test_decode_bucket_without_blocks_has_no_cell() -> None:
    plan = BucketPlan((Bucket(1, 128, 0),), (Bucket(1, 1, 0), Bucket(1, 1, 4)))
    no_blocks, four = drawn(padding_map(plan, BucketPhase.DECODE, LIMITS, 3000))
    assert no_blocks is None
    assert four == Cell("38%", 1 - 2.5 / 4)


def test_bytes_of_all_contexts_of_a_cell_are_added() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(1, 128, 4), Bucket(1, 256, 0)), (Bucket(1, 1, 1),))
    heat = bytes_map(plan, BucketPhase.PROMPT, lambda bucket: 2**20 * (1 + bucket.num_blocks), "a test")
    assert [cell.text for cell in drawn(heat) if cell] == ["6.0M", "1.0M"]


def test_caption_of_bytes_has_estimate_total_and_source() -> None:
    caption = bytes_map(PLAN, BucketPhase.DECODE, lambda _: 2**20, "measured somewhere").caption
    assert caption == f"Estimated graph memory, {len(PLAN.decode)}M in all: measured somewhere."


def test_cell_with_the_most_bytes_is_the_hottest() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(1, 256, 0)), (Bucket(1, 1, 1),))
    heat = bytes_map(plan, BucketPhase.PROMPT, lambda bucket: bucket.query_len, "a test")
    less, most = (cell.heat or 0 for cell in drawn(heat) if cell)
    assert 0 < less < most == 1


VALUES = st.lists(st.integers(1, 10_000), min_size=1, max_size=300, unique=True).map(sorted)


def heat_map(batches: list[int], lengths: list[int]) -> HeatMap:
    return HeatMap("title", "caption", batches, lengths, {(batches[-1], lengths[-1]): Cell("x", 1.0)}.get)


@given(VALUES, VALUES, st.integers(1, 40), st.integers(1, 40))
def test_thinned_map_fits_and_keeps_the_largest(
    batches: list[int], lengths: list[int], columns: int, rows: int
) -> None:
    thinned = heat_map(batches, lengths).downsample(columns, rows)
    assert len(thinned.batch_sizes) == min(columns, len(batches))
    assert len(thinned.lengths) == min(rows, len(lengths))
    assert (thinned.batch_sizes[-1], thinned.lengths[-1]) == (batches[-1], lengths[-1])
    assert list(thinned.batch_sizes) == sorted(set(thinned.batch_sizes) & set(batches))


def test_title_of_a_thinned_map_has_the_shown_lengths() -> None:
    thinned = heat_map([1, 2, 4], list(range(1, 101))).downsample(8, 10)
    assert thinned.title == "title (shown: 10 of 100 lengths)"


def test_map_that_fits_is_unchanged() -> None:
    small = heat_map([1, 2], [128])
    assert small.downsample(2, 1) == small


def test_rows_have_a_cell_for_every_batch_size() -> None:
    assert list(heat_map([1, 2], [128, 256]).rows()) == [(128, [None, None]), (256, [None, Cell("x", 1.0)])]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0K"), (367 * 2**20, "367M"), (1.43 * 2**30, "1.4G"), (33 * 2**40, "33T")],
)
def test_bytes_are_formatted_in_powers_of_1024(amount: float, text: str) -> None:
    assert format_cell_bytes(amount) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0"), (999, "999"), (1200, "1.2k"), (19_366, "19k"), (3e6, "3.0m")])
def test_counts_are_formatted_in_powers_of_1000(amount: float, text: str) -> None:
    assert format_cell_count(amount) == text


@given(st.floats(0, 1e17))
def test_formatted_bytes_fit_a_cell(amount: float) -> None:
    assert len(format_cell_bytes(amount)) <= 5
