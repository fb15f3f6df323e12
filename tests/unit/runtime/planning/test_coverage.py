"""Gaps of a plan, compared with a scan of every admissible shape, and plans by tokens, which have no gaps."""

from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.coverage import MAX_GAPS, CoverageGap, PhaseCoverage, PlanCoverage, plan_coverage
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
from tests.support.policies import EXPONENTIAL

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE


@st.composite
def small_limits(draw: st.DrawFn) -> Limits:
    block_size = draw(st.integers(1, 4))
    return Limits(
        max_model_len=draw(st.integers(1, 16)),
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_prefill_seqs=draw(st.integers(1, 5)),
        max_num_batched_tokens=draw(st.integers(1, 24)),
        block_size=block_size,
        contiguous_paged_attention=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
        splits_prompts=draw(st.sampled_from([None, True])),
        steps_by_tokens=draw(st.sampled_from([None, True])),
    )


def buckets(*dimensions: tuple[int, int]) -> st.SearchStrategy[tuple[Bucket, ...]]:
    """Return a strategy for sorted distinct buckets. Each dimension is (minimum, maximum)."""
    shape = st.tuples(*(st.integers(low, high) for low, high in dimensions)).map(lambda values: Bucket(*values))
    return st.sets(shape, min_size=1, max_size=8).map(lambda found: tuple(sorted(found)))


PLANS = st.builds(BucketPlan, buckets((1, 6), (1, 18), (0, 8)), buckets((1, 7), (1, 1), (1, 30)))
POLICIES = st.builds(
    BucketPolicy,
    strategy=st.sampled_from(RANGED_STRATEGIES),
)


def admissible(phase: BucketPhase, limits: Limits, kv_blocks: int) -> set[Bucket]:
    """Return every batch that the limits admit."""
    scan = _prompts(limits) if phase is PROMPT else _decodes(limits, kv_blocks)
    return {Bucket(*shape) for shape in scan}


def _prompts(limits: Limits) -> list[tuple[int, int, int]]:
    """Return every prompt batch. Batches of several prompts are formed only if a bucket holds them."""
    if limits.steps_by_tokens:
        return [(1, query, 0) for query in range(1, limits.max_num_batched_tokens + 1)]
    # The context of a piece of a split prompt may have any length. If prompts are not split, the context is a cached
    # prefix, which consists of whole blocks.
    least = 1 if limits.splits_prompts else limits.block_size
    has_context = limits.prefix_caching or limits.splits_prompts
    contexts = range(limits.max_model_len + 1) if has_context else range(1)
    return [
        (1, query, context)
        for query, context in product(range(1, limits.max_model_len + 1), contexts)
        if query <= limits.max_num_batched_tokens
        and query + (context and (context - 1) * limits.block_size + least) <= limits.max_model_len
    ]


def _decodes(limits: Limits, kv_blocks: int) -> list[tuple[int, int, int]]:
    """Return every decode batch. Each sequence has a separate block, so no batch has more sequences than blocks."""
    longest = ceil(limits.max_model_len / limits.block_size)
    found = []
    for size in range(1, min(limits.max_num_seqs, kv_blocks) + 1):
        # Each sequence counts the blocks that it shares. So with prefix caching, a batch may count up to three times
        # the number of all blocks.
        most = min(size * longest, 3 * kv_blocks if limits.prefix_caching else kv_blocks)
        blocks = kv_blocks if limits.contiguous_paged_attention else most
        found += [(size, 1, count) for count in range(size, blocks + 1)]
    return found


def misses(plan: BucketPlan, phase: BucketPhase, shapes: set[Bucket], contiguous: bool) -> set[Bucket]:
    if phase is DECODE and contiguous:
        return {shape for shape in shapes if _runs_cold(plan, shape.batch_size, shape.num_blocks)}
    return {shape for shape in shapes if plan.find(phase, *shape) is None}


def _runs_cold(plan: BucketPlan, size: int, highest: int) -> bool:
    """Return True if both lookups of vllm-gaudi find no common bucket.

    The first lookup finds the batch size by the number of the sequences' blocks. The second lookup finds the blocks by
    the highest block in use.
    """
    for blocks in range(size, highest + 1):
        padded = plan.find(DECODE, size, 1, blocks)
        read = padded and plan.find(DECODE, padded.batch_size, 1, highest)
        if padded is None or read is None or Bucket(padded.batch_size, 1, read.num_blocks) not in plan.decode:
            return True
    return False


def inside(gap: CoverageGap, shapes: set[Bucket]) -> set[Bucket]:
    return {
        shape
        for shape in shapes
        if all(low <= value <= high for low, value, high in zip(gap.first, shape, gap.last, strict=True))
    }


def check(plan: BucketPlan, limits: Limits, kv_blocks: int) -> None:
    found = plan_coverage(plan, limits, kv_blocks)
    for coverage in (found.prompt, found.decode):
        shapes = admissible(coverage.phase, limits, kv_blocks)
        missing = misses(plan, coverage.phase, shapes, limits.contiguous_paged_attention)
        assert (coverage.shapes, coverage.missing) == (len(shapes), len(missing))
        regions = [inside(gap, shapes) for gap in coverage.gaps]
        assert all(region <= missing for region in regions)
        if coverage.gap_count <= MAX_GAPS:
            assert set().union(*regions) == missing
        for gap in coverage.gaps:
            assert gap.first in missing
            for side in range(3):
                assert gap.last[side] == max(shape[side] for shape in inside(gap, shapes))


@given(PLANS, small_limits(), st.integers(1, 20))
@settings(max_examples=300)
def test_gaps_of_any_plan_equal_those_of_a_scan(plan: BucketPlan, limits: Limits, kv_blocks: int) -> None:
    check(plan, limits, kv_blocks)


@given(POLICIES, small_limits(), st.integers(1, 20))
@settings(max_examples=150)
def test_gaps_of_every_strategy_equal_those_of_a_scan(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> None:
    try:
        plan = make_plan(policy, limits, kv_blocks)
    except PlanImpossible:
        return
    check(plan, limits, kv_blocks)


@given(PLANS, small_limits(), st.integers(1, 20))
def test_no_gap_begins_inside_another_gap(plan: BucketPlan, limits: Limits, kv_blocks: int) -> None:
    found = plan_coverage(plan, limits, kv_blocks)
    for coverage in (found.prompt, found.decode):
        firsts = [gap.first for gap in coverage.gaps]
        assert firsts == sorted(firsts)
        for first, gap in product(firsts, coverage.gaps):
            inside_it = all(low <= at <= high for low, at, high in zip(gap.first, first, gap.last, strict=True))
            assert first == gap.first or not inside_it


RANGES = st.builds(BucketingRangeSettings, min=st.integers(1, 6), step=st.integers(1, 6), max=st.integers(6, 30))


@given(
    st.builds(
        BucketPolicy,
        strategy=st.sampled_from(RANGED_STRATEGIES),
        prompt=st.builds(PromptRanges, batch_size=RANGES, query=RANGES, context=RANGES),
        decode=st.builds(DecodeRanges, batch_size=RANGES, blocks=RANGES),
    ),
    small_limits(),
    st.integers(1, 20),
)
@settings(max_examples=300)
def test_plan_by_tokens_has_no_gap_for_any_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> None:
    by_tokens = limits.model_copy(update={"steps_by_tokens": True, "gapless": True})
    plan = make_plan(policy, by_tokens, kv_blocks)
    assert plan_coverage(plan, by_tokens, kv_blocks).describe_gaps() is None
    tokens = by_tokens.max_num_batched_tokens
    assert max(bucket.query_len for bucket in plan.prompt) == tokens, "the scheduler's budget has a bucket of its own"


def test_bucket_file_below_the_token_budget_has_a_gap() -> None:
    limits = Limits(max_model_len=256, max_num_seqs=1, max_num_batched_tokens=512, block_size=32, steps_by_tokens=True)
    policy = BucketPolicy(strategy=Strategy.FILE, file="(1, [64, 384], 0)\n(1, 1, 8)")
    assert plan_coverage(make_plan(policy, limits, 8), limits, 8).prompt.gaps == (
        CoverageGap(Bucket(1, 385, 0), Bucket(1, 512, 0)),
    )


RECORDED = Limits(
    max_model_len=4096,
    max_num_seqs=16,
    max_num_prefill_seqs=4,
    max_num_batched_tokens=4096,
    prefix_caching=True,
)


def recorded(strategy: Strategy = Strategy.EXPONENTIAL, **limits: int) -> PlanCoverage:
    given = RECORDED.model_copy(update=limits)
    return plan_coverage(make_plan(BucketPolicy(strategy=strategy), given, 3000), given, 3000)


WITHOUT = "of the prompt shapes that the limits admit have no bucket:"


def test_plan_of_the_plugin_has_gaps_before_its_largest_contexts() -> None:
    """A query of 513 tokens allows 59 context blocks, but its bucket of 640 tokens has at most 58."""
    found = recorded(max_model_len=8192, max_num_batched_tokens=8192).prompt
    assert found.gaps[0] == CoverageGap(Bucket(1, 513, 59), Bucket(1, 640, 59))


def test_message_names_share_number_and_first_gap() -> None:
    said = recorded(max_model_len=8192, max_num_batched_tokens=8192).describe_gaps() or ""
    assert said.startswith(f"15.1 % {WITHOUT} 8 gaps, the first from (1, 513, 59) to")


@st.composite
def limits_of_gapless_plans(draw: st.DrawFn) -> Limits:
    return Limits(
        max_model_len=draw(st.integers(16, 300)),
        max_num_seqs=draw(st.integers(1, 40)),
        max_num_prefill_seqs=draw(st.integers(1, 3)),
        max_num_batched_tokens=draw(st.integers(16, 400)),
        block_size=draw(st.sampled_from([4, 16])),
        contiguous_paged_attention=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
        splits_prompts=draw(st.sampled_from([None, True])),
        gapless=True,
    )


@given(POLICIES, limits_of_gapless_plans(), st.integers(1, 200))
@settings(max_examples=300)
def test_gapless_plan_of_any_limits_has_no_gap(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> None:
    found = plan_coverage(make_plan(policy, limits, kv_blocks), limits, kv_blocks)
    assert found.describe_gaps() is None


def pieces(strategy: Strategy = Strategy.EXPONENTIAL, **limits: int) -> PlanCoverage:
    return recorded(strategy, prefix_caching=False, splits_prompts=True, gapless=True, **limits)


@pytest.mark.parametrize("strategy", RANGED_STRATEGIES)
@pytest.mark.parametrize("length", [1024, 4096, 8192, 20_096])
def test_every_piece_of_a_split_prompt_has_a_bucket(strategy: Strategy, length: int) -> None:
    assert pieces(strategy, max_model_len=length, max_num_batched_tokens=min(length, 8192)).prompt.missing == 0


def test_plan_without_gaps_has_no_message() -> None:
    found = recorded(max_num_prefill_seqs=1)
    assert found.describe_gaps() is None
    assert found.describe_gaps() is None


def test_share_that_rounds_to_zero_is_under_0_1_percent() -> None:
    coverage = PhaseCoverage(PROMPT, 100_000, 1, 1, (CoverageGap(Bucket(1, 9, 0), Bucket(1, 9, 0)),))
    assert coverage.describe_gaps() == (f"under 0.1 % {WITHOUT} 1 gap from (1, 9, 0) to (1, 9, 0)")


def test_share_below_a_thousandth_is_described_as_less() -> None:
    coverage = PhaseCoverage(PROMPT, 1_000_500, 1000, 1, (CoverageGap(Bucket(1, 9, 0), Bucket(1, 9, 0)),))
    assert (coverage.describe_gaps() or "").startswith("under 0.1 % ")


def test_share_of_a_thousandth_is_0_1_percent() -> None:
    coverage = PhaseCoverage(PROMPT, 1000, 1, 1, (CoverageGap(Bucket(1, 9, 0), Bucket(1, 9, 0)),))
    assert coverage.describe_gaps() == (f"0.1 % {WITHOUT} 1 gap from (1, 9, 0) to (1, 9, 0)")


def test_gaps_of_both_phases_are_joined_to_one_message() -> None:
    gap = (CoverageGap(Bucket(1, 9, 0), Bucket(1, 9, 0)),)
    found = PlanCoverage(PhaseCoverage(PROMPT, 10, 1, 1, gap), PhaseCoverage(DECODE, 10, 2, 1, gap))
    first, second = found.describe_phases()
    assert found.describe_gaps() == f"{first}; {second}"


def test_corner_beyond_the_model_length_is_no_gap() -> None:
    limits = Limits(
        max_model_len=16,
        max_num_seqs=1,
        max_num_prefill_seqs=1,
        max_num_batched_tokens=16,
        block_size=4,
        prefix_caching=True,
    )
    stairs = (Bucket(1, 4, 3), Bucket(1, 8, 2), Bucket(1, 12, 1), Bucket(1, 16, 0))
    assert plan_coverage(BucketPlan(stairs, (Bucket(1, 1, 4),)), limits, 4).prompt.gaps == ()


def test_gaps_of_smaller_and_larger_batches_are_both_reported() -> None:
    limits = Limits(max_model_len=10, max_num_seqs=2, block_size=1, max_num_batched_tokens=10)
    found = plan_coverage(BucketPlan((Bucket(1, 10, 0),), (Bucket(1, 1, 5), Bucket(2, 1, 4))), limits, 10).decode
    assert [gap.first for gap in found.gaps] == [Bucket(1, 1, 6), Bucket(2, 1, 5)]


def test_batch_size_without_a_bucket_is_a_gap() -> None:
    limits = Limits(max_model_len=8, max_num_seqs=4, max_num_batched_tokens=32, block_size=1)
    plan = BucketPlan((Bucket(3, 8, 0),), (Bucket(3, 1, 32),))
    found = plan_coverage(plan, limits, 32)
    assert found.prompt.gaps == ()
    assert [gap.first for gap in found.decode.gaps] == [Bucket(4, 1, 4)]


def test_batch_sizes_above_the_last_step_are_a_gap() -> None:
    """Linear decode batch sizes end at a multiple of 32, so 97 to 100 sequences have no bucket."""
    given = RECORDED.model_copy(update={"max_num_seqs": 100})
    found = plan_coverage(make_plan(BucketPolicy(strategy=Strategy.LINEAR), given, 3000), given, 3000)
    assert [gap.first for gap in found.decode.gaps] == [Bucket(97, 1, 97)]


def test_split_prompts_have_a_gap_without_context_buckets() -> None:
    """The plugin's own plan has no context without prefix caching, so later pieces have no bucket."""
    given = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=512, splits_prompts=True)
    plan = make_plan(EXPONENTIAL, given.model_copy(update={"splits_prompts": None}), 32)
    assert [gap.first for gap in plan_coverage(plan, given, 32).prompt.gaps] == [Bucket(1, 1, 1)]


def test_number_of_gaps_is_complete_if_the_list_is_cut() -> None:
    """A staircase of 200 steps has 201 inner corners, each of which is a gap."""
    steps = 200
    stairs = tuple(Bucket(1, steps - step, step) for step in range(steps))
    given = Limits(max_model_len=1000, max_num_seqs=1, max_num_batched_tokens=1000, block_size=1, prefix_caching=True)
    found = plan_coverage(BucketPlan(stairs, (Bucket(1, 1, 1000),)), given, 1000).prompt
    assert (len(found.gaps), found.gap_count) == (MAX_GAPS, steps + 1)


def test_decode_buckets_of_linear_ranges_cover_every_batch() -> None:
    wide = BucketPolicy(strategy=Strategy.LINEAR)
    wide = wide.model_copy(
        update={"decode": wide.decode.model_copy(update={"batch_size": BucketingRangeSettings(min=1, step=4, max=16)})}
    )
    assert plan_coverage(make_plan(wide, RECORDED, 3000), RECORDED, 3000).decode.missing == 0
