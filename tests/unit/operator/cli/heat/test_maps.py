import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.cli.heat.heat_map import MISS, Cell, HeatMap
from gaudi_operator.cli.heat.maps import bytes_map, padding_map
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase

LIMITS = Limits(max_model_len=4096, max_num_seqs=16, max_num_prefill_seqs=4, max_num_batched_tokens=4096)
PLAN = make_plan(BucketPolicy(), LIMITS, 3000)
PADDING = padding_map(PLAN, BucketPhase.PROMPT, LIMITS, 3000)


def drawn(heat_map: HeatMap) -> list[Cell | None]:
    return [cell for _, cells in heat_map.rows() for cell in cells]


def test_padding_of_the_first_bucket_is_that_of_all_shorter_prompts() -> None:
    # 1 to 128 tokens have 64.5 on average, so 63.5 of 128 are padding.
    assert PADDING.cell((1, 128)) == Cell("50%", 1 - 64.5 / 128)


def test_padding_counts_from_the_next_smaller_bucket() -> None:
    # Batches of 3 and 4 with 129 to 256 tokens each.
    cell = PADDING.cell((4, 256))
    assert cell is not None
    assert cell.heat == pytest.approx(1 - 3.5 * 192.5 / (4 * 256))


def test_shapes_that_are_padded_to_a_larger_bucket_show_what_that_costs() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(4, 256, 0)), (Bucket(1, 1, 1),))
    cell = padding_map(plan, BucketPhase.PROMPT, LIMITS, 3000).cell((4, 128))
    assert cell is not None
    assert cell.heat == pytest.approx(1 - 3 * 64.5 / (4 * 256))


def test_requests_without_a_bucket_are_a_miss() -> None:
    # Two prompts of 2000 tokens are within the budget; their bucket, (2, 2304), is not.
    assert PLAN.find(BucketPhase.PROMPT, 2, 2000, 0) is None
    assert PADDING.cell((2, 2304)) is MISS


def test_shapes_beyond_the_budget_have_no_cell() -> None:
    assert PADDING.cell((4, 2304)) is None


@given(
    st.sampled_from([Strategy.EXPONENTIAL, Strategy.LINEAR, Strategy.PADDING_AWARE]),
    st.booleans(),
    st.integers(1, 32),
    st.integers(64, 3000),
)
def test_padding_is_a_share(strategy: Strategy, contiguous: bool, seqs: int, blocks: int) -> None:
    limits = Limits(
        max_model_len=2048, max_num_seqs=seqs, max_num_batched_tokens=2048, contiguous_paged_attention=contiguous
    )
    plan = make_plan(BucketPolicy(strategy=strategy), limits, blocks)
    for phase in BucketPhase:
        cells = drawn(padding_map(plan, phase, limits, blocks))
        assert all(cell is None or cell.heat is None or 0 <= cell.heat < 1 for cell in cells)


def test_decode_without_contiguous_attention_has_no_cell_with_fewer_blocks_than_sequences() -> None:
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": False})
    plan = make_plan(BucketPolicy(), limits, 3000)
    padding = padding_map(plan, BucketPhase.DECODE, limits, 3000)
    assert padding.cell((1, 1)) is not None
    assert padding.cell((2, 1)) is None


def test_contiguous_decode_has_no_miss_up_to_the_blocks_of_the_device() -> None:
    assert MISS not in drawn(padding_map(PLAN, BucketPhase.DECODE, LIMITS, 3000))


def test_bucket_without_blocks_pads_nothing() -> None:
    plan = BucketPlan((Bucket(1, 128, 0),), (Bucket(1, 1, 0), Bucket(1, 1, 4)))
    no_blocks, four = drawn(padding_map(plan, BucketPhase.DECODE, LIMITS, 3000))
    assert no_blocks is None
    assert four == Cell("38%", 1 - 2.5 / 4)


def test_bytes_of_all_contexts_of_a_cell_are_added() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(1, 128, 4), Bucket(1, 256, 0)), (Bucket(1, 1, 1),))
    heat = bytes_map(plan, BucketPhase.PROMPT, lambda bucket: 2**20 * (1 + bucket.num_blocks), "a test")
    assert [cell.text for cell in drawn(heat) if cell] == ["6.0M", "1.0M"]


def test_caption_of_bytes_says_estimate_total_and_source() -> None:
    caption = bytes_map(PLAN, BucketPhase.DECODE, lambda _: 2**20, "measured somewhere").caption
    assert caption == f"Estimated graph memory, {len(PLAN.decode)}M in all: measured somewhere."


def test_most_bytes_are_hottest() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(1, 256, 0)), (Bucket(1, 1, 1),))
    heat = bytes_map(plan, BucketPhase.PROMPT, lambda bucket: bucket.query_len, "a test")
    less, most = (cell.heat or 0 for cell in drawn(heat) if cell)
    assert 0 < less < most == 1
