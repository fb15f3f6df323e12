import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.cli.heat.heat_map import MISS, Cell
from gaudi_operator.cli.heat.maps import bytes_map, padding_map
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase

LIMITS = Limits(max_model_len=4096, max_num_seqs=16, max_num_prefill_seqs=4, max_num_batched_tokens=4096)
PLAN = make_plan(BucketPolicy(), LIMITS, 3000)
PADDING = padding_map(PLAN, BucketPhase.PROMPT, LIMITS, 3000)


def test_padding_of_the_first_bucket_is_that_of_all_shorter_prompts() -> None:
    # 1 to 128 tokens have 64.5 on average, so 63.5 of 128 are padding.
    assert PADDING.cells[1, 128] == Cell("50%", 1 - 64.5 / 128)


def test_padding_counts_from_the_next_smaller_bucket() -> None:
    # Batches of 3 and 4 with 129 to 256 tokens each.
    padding = PADDING.cells[4, 256].heat
    assert padding == pytest.approx(1 - 3.5 * 192.5 / (4 * 256))


def test_shapes_that_are_padded_to_a_larger_bucket_show_what_that_costs() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(4, 256, 0)), (Bucket(1, 1, 1),))
    padding = padding_map(plan, BucketPhase.PROMPT, LIMITS, 3000).cells[4, 128].heat
    assert padding == pytest.approx(1 - 3 * 64.5 / (4 * 256))


def test_requests_without_a_bucket_are_a_miss() -> None:
    # Two prompts of 2000 tokens are within the budget; their bucket, (2, 2304), is not.
    assert PLAN.find(BucketPhase.PROMPT, 2, 2000, 0) is None
    assert PADDING.cells[2, 2304] is MISS


def test_shapes_beyond_the_budget_have_no_cell() -> None:
    assert (4, 2304) not in PADDING.cells


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
        cells = padding_map(plan, phase, limits, blocks).cells.values()
        assert all(cell.heat is None or 0 <= cell.heat < 1 for cell in cells)


def test_decode_without_contiguous_attention_has_no_cell_with_fewer_blocks_than_sequences() -> None:
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": False})
    plan = make_plan(BucketPolicy(), limits, 3000)
    cells = padding_map(plan, BucketPhase.DECODE, limits, 3000).cells
    assert (1, 1) in cells
    assert (2, 1) not in cells


def test_contiguous_decode_has_no_miss_up_to_the_blocks_of_the_device() -> None:
    cells = padding_map(PLAN, BucketPhase.DECODE, LIMITS, 3000).cells
    assert MISS not in cells.values()


def test_bytes_of_all_contexts_of_a_cell_are_added() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(1, 128, 4), Bucket(1, 256, 0)), (Bucket(1, 1, 1),))
    cells = bytes_map(plan, BucketPhase.PROMPT, lambda bucket: 2**20 * (1 + bucket.num_blocks), "a test").cells
    assert {place: cell.text for place, cell in cells.items()} == {(1, 128): "6.0M", (1, 256): "1.0M"}


def test_caption_of_bytes_says_estimate_total_and_source() -> None:
    caption = bytes_map(PLAN, BucketPhase.DECODE, lambda _: 2**20, "measured somewhere").caption
    assert caption == f"Estimated graph memory, {len(PLAN.decode)}M in all: measured somewhere."


def test_most_bytes_are_hottest() -> None:
    plan = BucketPlan((Bucket(1, 128, 0), Bucket(1, 256, 0)), (Bucket(1, 1, 1),))
    cells = bytes_map(plan, BucketPhase.PROMPT, lambda bucket: bucket.query_len, "a test").cells
    assert cells[1, 256].heat == 1.0
    assert 0 < (cells[1, 128].heat or 0) < 1
