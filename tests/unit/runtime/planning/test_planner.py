"""The rules that every plan follows: filters, KV blocks, limits of the engine, and refusals of impossible plans."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan, PlanDroppedBuckets, PlanDropRule
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    OptimalSettings,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.planner import (
    PlannerBucketFilter,
    make_plan,
    make_plan_for_device,
    violated_planner_decode_rule,
    violated_planner_prompt_rule,
)
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
from tests.support.policies import EXPONENTIAL

LIMITS = Limits(max_model_len=2048, max_num_seqs=4, max_num_batched_tokens=2048, prefix_caching=True)
RANGED = st.sampled_from(RANGED_STRATEGIES)


def linear(**dimensions: BucketingRangeSettings) -> BucketPolicy:
    prompt = {name: value for name, value in dimensions.items() if name in PromptRanges.model_fields}
    decode = {name: value for name, value in dimensions.items() if name == "blocks"}
    return BucketPolicy(strategy=Strategy.LINEAR, prompt=PromptRanges(**prompt), decode=DecodeRanges(**decode))


def test_padding_aware_begins_at_one_if_blocks_are_few() -> None:
    """The range would start at the block size, but there are fewer KV blocks (spec/pairs.md, last rule)."""
    few = Limits(max_model_len=1536, max_num_seqs=3, max_num_batched_tokens=1536, contiguous_paged_attention=False)
    plan = make_plan(BucketPolicy(strategy=Strategy.PADDING_AWARE), few, kv_blocks=100)
    by_size = [[each.num_blocks for each in plan.decode if each.batch_size == size] for size in (1, 2, 3)]
    assert by_size == [[1, 2, 4, 8, 12], [2, 4, 8, 16, 24], [4, 8, 16, 32, 36]]


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    return Limits(
        max_model_len=draw(st.integers(1, 20_000)),
        max_num_seqs=draw(st.integers(1, 64)),
        max_num_prefill_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=draw(st.integers(512, 8192)),
        block_size=draw(st.sampled_from([128, 256, 512])),
        contiguous_paged_attention=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
    )


def plan_or_none(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan | None:
    try:
        return make_plan(policy, limits, kv_blocks)
    except PlanImpossible:
        return None


@given(RANGED, limits(), st.integers(1, 6000))
def test_plan_is_sorted_and_distinct(strategy: Strategy, limits: Limits, kv_blocks: int) -> None:
    plan = plan_or_none(BucketPolicy(strategy=strategy), limits, kv_blocks)
    for buckets in (plan.prompt, plan.decode) if plan else ():
        assert list(buckets) == sorted(set(buckets))


@given(RANGED, limits(), st.integers(1, 6000))
def test_every_planned_bucket_passes_the_filters(strategy: Strategy, limits: Limits, kv_blocks: int) -> None:
    plan = plan_or_none(BucketPolicy(strategy=strategy), limits, kv_blocks)
    for bucket in plan.prompt if plan else ():
        assert violated_planner_prompt_rule(limits, *bucket) is None
    for bucket in plan.decode if plan else ():
        assert violated_planner_decode_rule(limits, bucket.batch_size, bucket.num_blocks) is None


@given(st.integers(1, 4), st.integers(1, 1519))
def test_contiguous_attention_has_a_bucket_for_every_block_count(batch: int, blocks: int) -> None:
    plan = make_plan(EXPONENTIAL, LIMITS, kv_blocks=1519)
    assert plan.find(BucketPhase.DECODE, batch, 1, blocks) is not None


def test_without_prefix_caching_prompts_have_no_context() -> None:
    without = LIMITS.model_copy(update={"prefix_caching": False})
    plan = make_plan(EXPONENTIAL, without, kv_blocks=1519)
    assert {bucket.num_blocks for bucket in plan.prompt} == {0}


def test_long_model_without_prefix_caching_has_no_context() -> None:
    without = LIMITS.model_copy(update={"prefix_caching": False, "max_model_len": 16_384})
    plan = make_plan(EXPONENTIAL, without, kv_blocks=1519)
    assert {bucket.num_blocks for bucket in plan.prompt} == {0}


def test_contiguous_attention_ends_with_all_blocks_of_the_device() -> None:
    assert make_plan(EXPONENTIAL, LIMITS, kv_blocks=1519).decode[-1].num_blocks == 1519


REFERENCES = Limits(
    max_model_len=1024,
    max_num_seqs=16,
    max_num_batched_tokens=1024,
    contiguous_paged_attention=False,
    prefix_caching=True,
)


TRAFFIC = OptimalSettings(traffic="prompt 1 100 0 5\nprompt 1 900 0 2\ndecode 2 1 12 9")


def plan_with_few_blocks(strategy: Strategy = Strategy.EXPONENTIAL, **blocks: Any) -> BucketPlan:
    """Return a plan for 10 KV blocks. The 16 sequences of 8 blocks may reference more than three times as many."""
    found = DeviceBlocks(10, **{"size": 128, "decode_size": 128, **blocks})
    optimal = TRAFFIC if strategy is Strategy.OPTIMAL else None
    return make_plan_for_device(BucketPolicy(strategy=strategy, optimal=optimal), REFERENCES, found)


def test_decode_blocks_are_limited_unless_the_engine_has_no_limit() -> None:
    assert plan_with_few_blocks().decode[-1].num_blocks == 30
    assert plan_with_few_blocks(bounded=False).decode[-1].num_blocks == 8 * 16


def test_plan_has_the_blocks_of_the_engine() -> None:
    assert {query for _, query, _ in plan_with_few_blocks(size=256, decode_size=256).prompt} == {256, 512, 768, 1024}
    assert plan_with_few_blocks(size=256, decode_size=256, bounded=False).decode[-1].num_blocks == 4 * 16


def test_decode_buckets_use_the_decode_block_size() -> None:
    plan = plan_with_few_blocks(size=512, bounded=False)
    assert {query for _, query, _ in plan.prompt} == {512, 1024}
    assert plan.decode == plan_with_few_blocks(bounded=False).decode
    assert {each.phase for each in plan.dropped} <= {BucketPhase.PROMPT, BucketPhase.DECODE}


@pytest.mark.parametrize("strategy", [*RANGED_STRATEGIES, Strategy.OPTIMAL])
def test_queries_are_multiples_of_the_engines_query_step(strategy: Strategy) -> None:
    queries = {query for _, query, _ in plan_with_few_blocks(strategy, query_step=256).prompt}
    assert queries <= {256, 512, 768, 1024}
    assert 1024 in queries


def test_dropped_buckets_are_counted_by_rule() -> None:
    policy = linear(query=BucketingRangeSettings(max=4096), context=BucketingRangeSettings(max=0))
    plan = make_plan(policy, LIMITS, kv_blocks=64)
    assert plan.dropped == (PlanDroppedBuckets(BucketPhase.PROMPT, PlanDropRule.QUERY_TOO_LONG, 16),)


def test_prompt_without_any_bucket_names_phase_and_rule() -> None:
    policy = linear(query=BucketingRangeSettings(min=4096, max=4096), context=BucketingRangeSettings(max=0))
    with pytest.raises(
        PlanImpossible,
        match=r"no prompt bucket is left: 1 dropped because the query is longer than maxModelLen\. "
        r"Change bucketing\.prompt or raise the limit",
    ):
        make_plan(policy, LIMITS, kv_blocks=64)


def test_batch_over_the_token_budget_names_its_rule() -> None:
    policy = linear(batch_size=BucketingRangeSettings(min=32, max=32), query=BucketingRangeSettings(min=128, max=128))
    with pytest.raises(PlanImpossible, match=r"16 dropped because batch size \* query exceeds"):
        make_plan(policy, LIMITS, kv_blocks=64)


def test_decode_without_any_bucket_names_phase_and_rule() -> None:
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": False})
    policy = linear(blocks=BucketingRangeSettings(min=1, step=1, max=1)).model_copy(
        update={"decode": DecodeRanges(batch_size=BucketingRangeSettings(min=4), blocks=BucketingRangeSettings(max=1))}
    )
    with pytest.raises(PlanImpossible, match=r"no decode bucket is left: .* fewer KV blocks than sequences"):
        make_plan(policy, limits, kv_blocks=64)


def test_min_above_max_names_the_dimension() -> None:
    policy = linear(query=BucketingRangeSettings(min=512, max=256))
    with pytest.raises(PlanImpossible, match=r"bucketing.prompt.query: min 512 .* max 256"):
        make_plan(policy, LIMITS, kv_blocks=64)


def ranges(dimension: str, **settings: int) -> BucketPolicy:
    phase, name = dimension.split(".")
    policy = {"strategy": "linear", phase: {name: settings}}
    return BucketPolicy.model_validate(policy)


@pytest.mark.parametrize("dimension", ["prompt.batchSize", "prompt.query", "decode.batchSize", "decode.blocks"])
def test_dimension_whose_min_is_zero_is_reported(dimension: str) -> None:
    with pytest.raises(PlanImpossible) as refused:
        make_plan(ranges(dimension, min=0), LIMITS, kv_blocks=64)
    assert str(refused.value) == f"bucketing.{dimension}: min is 0, but must be at least 1"


def test_context_whose_min_is_above_max_is_reported() -> None:
    with pytest.raises(
        PlanImpossible, match=r"^bucketing\.prompt\.context: min 9 is above max 3\. Lower min or raise max$"
    ):
        make_plan(ranges("prompt.context", min=9, max=3), LIMITS, kv_blocks=64)


@pytest.mark.parametrize(
    "dimension", ["prompt.batchSize", "prompt.query", "prompt.context", "decode.batchSize", "decode.blocks"]
)
def test_warning_names_the_dimension_of_an_ignored_setting(dimension: str) -> None:
    policy = ranges(dimension, step=7).model_copy(update={"strategy": Strategy.EXPONENTIAL})
    assert make_plan(policy, LIMITS, kv_blocks=64).warnings == (
        f"bucketing.{dimension}.step is ignored by the Exponential strategy",
    )


def test_context_is_raised_only_if_the_query_leaves_fewer_blocks() -> None:
    """A query of 54 blocks leaves the maximum context of 10 blocks, so the context stays unchanged."""
    long = LIMITS.model_copy(update={"max_model_len": 8192, "max_num_batched_tokens": 8192})
    policy = linear(
        context=BucketingRangeSettings(step=4, max=10), query=BucketingRangeSettings(min=53 * 128, max=55 * 128)
    )
    plan = make_plan(policy, long, kv_blocks=64)
    assert [[each.num_blocks for each in plan.prompt if each.query_len == 128 * size] for size in (53, 54, 55)] == [
        [0, 4, 8],
        [0, 4, 8],
        [0, 4, 9],
    ]


def test_batch_size_zero_is_refused() -> None:
    policy = linear(batch_size=BucketingRangeSettings(min=0))
    with pytest.raises(PlanImpossible, match=r"bucketing.prompt.batchSize: min is 0, but must be at least 1"):
        make_plan(policy, LIMITS, kv_blocks=64)


def test_device_without_a_block_is_refused() -> None:
    with pytest.raises(PlanImpossible) as refused:
        make_plan(EXPONENTIAL, LIMITS, kv_blocks=0)
    assert str(refused.value) == ("the device has no memory for a KV block. Use more device memory or a smaller model")


@pytest.mark.parametrize(
    ("phase", "policy", "combined"),
    [
        ("prompt", ranges("prompt.query", min=1, step=1, max=10_001), 10_001 * 500),
        ("decode", ranges("decode.blocks", min=1, step=1, max=10_001), 10_001 * 500),
    ],
)
def test_ranges_with_too_many_buckets_are_refused(phase: str, policy: BucketPolicy, combined: int) -> None:
    wide = Limits(max_model_len=10_001, max_num_seqs=500, max_num_prefill_seqs=500, max_num_batched_tokens=10_001)
    every = {"decode": policy.decode.model_copy(update={"batch_size": BucketingRangeSettings(step=1)})}
    with pytest.raises(PlanImpossible) as refused:
        make_plan(policy.model_copy(update=every), wide, kv_blocks=10_001)
    assert str(refused.value) == (
        f"the {phase} ranges combine to {combined} buckets, but at most 5000000 are allowed. Choose larger steps "
        f"in bucketing.{phase}, or another strategy"
    )


def test_phase_of_more_than_250000_buckets_is_refused() -> None:
    sieve = PlannerBucketFilter(BucketPhase.DECODE)
    for size in range(1, 250_001):
        sieve.keep(Bucket(size, 1, 1))
    with pytest.raises(PlanImpossible) as refused:
        sieve.keep(Bucket(250_001, 1, 1))
    assert str(refused.value) == (
        "the plan has more than 250000 decode buckets. Choose larger steps in bucketing.decode, or another strategy"
    )


def test_exponential_names_every_ignored_setting() -> None:
    policy = BucketPolicy(
        strategy=Strategy.EXPONENTIAL,
        prompt=PromptRanges(query=BucketingRangeSettings(step=256, max=1024)),
        decode=DecodeRanges(blocks=BucketingRangeSettings(pad_percent=10)),
    )
    fields = ("prompt.query.step", "prompt.query.max", "paddingAware")
    assert make_plan(policy, LIMITS, kv_blocks=1519).warnings == tuple(
        f"bucketing.{field} is ignored by the Exponential strategy" for field in fields
    )


def test_exponential_with_a_long_model_reads_the_largest_context() -> None:
    long = LIMITS.model_copy(update={"max_model_len": 16_384})
    policy = BucketPolicy(strategy=Strategy.EXPONENTIAL, prompt=PromptRanges(context=BucketingRangeSettings(max=100)))
    plan = make_plan(policy, long, kv_blocks=1519)
    assert plan.warnings == ()
    assert plan.prompt != make_plan(EXPONENTIAL, long, kv_blocks=1519).prompt


def test_linear_names_an_ignored_padding() -> None:
    (warning,) = make_plan(linear(query=BucketingRangeSettings(pad_max=10)), LIMITS, kv_blocks=64).warnings
    assert warning.startswith("engine.settings VLLM_PROMPT_QUERY_BUCKET_PAD_MAX is ignored")
    assert "Linear" in warning


def test_steps_by_tokens_ignore_batch_size_and_context_of_prompts() -> None:
    limits = Limits(max_model_len=256, max_num_seqs=4, max_num_batched_tokens=256, steps_by_tokens=True)
    ranges = PromptRanges(batch_size=BucketingRangeSettings(max=4), context=BucketingRangeSettings(max=2))
    plan = make_plan(BucketPolicy(strategy=Strategy.LINEAR, prompt=ranges), limits, 9)
    assert {(bucket.batch_size, bucket.num_blocks) for bucket in plan.prompt} == {(1, 0)}
    assert [warning.partition(" is ignored: on a CPU")[0] for warning in plan.warnings] == [
        "bucketing.prompt.batchSize.max",
        "bucketing.prompt.context.max",
    ]


def test_context_range_without_prefix_caching_is_reported_as_ignored() -> None:
    without = LIMITS.model_copy(update={"prefix_caching": False})
    plan = make_plan(linear(context=BucketingRangeSettings(max=4)), without, kv_blocks=64)
    assert plan.warnings == (
        "bucketing.prompt.context.max is ignored: without prefix caching or split prompts, prompts have no context",
    )


PIECES = LIMITS.model_copy(update={"prefix_caching": False, "splits_prompts": True, "gapless": True})


def test_split_prompts_have_contexts_up_to_the_model_length() -> None:
    """A query of 257 to 384 tokens may follow 1791 tokens, which are 14 blocks."""
    contexts = [each.num_blocks for each in make_plan(EXPONENTIAL, PIECES, 64).prompt if each.query_len == 384]
    assert contexts == [0, 1, 2, 4, 8, 14]


@pytest.mark.parametrize("strategy", RANGED_STRATEGIES)
def test_configured_contexts_end_with_the_maximum_of_each_query(strategy: Strategy) -> None:
    policy = BucketPolicy(strategy=strategy, prompt=PromptRanges(context=BucketingRangeSettings(max=2)))
    plan = make_plan(policy, PIECES, kv_blocks=64)
    assert plan.warnings == ()
    assert [each.num_blocks for each in plan.prompt if each.query_len == 384] == [0, 1, 2, 14]


def test_context_of_one_block_is_planned_next_to_zero_blocks() -> None:
    short = PIECES.model_copy(update={"max_model_len": 130, "max_num_batched_tokens": 130})
    assert [each.num_blocks for each in make_plan(linear(), short, 64).prompt] == [0, 2, 0, 1]
