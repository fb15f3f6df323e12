"""Attention slices of a sliding-window model: long prompts without context must be whole slices."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket_plan import PlanDropRule
from gaudi_runtime.contract.bucketing import BucketingAttentionSlices, BucketPolicy, Limits, Strategy
from gaudi_runtime.planning.planner import make_plan

LONG = Limits(max_model_len=4096, max_num_seqs=4, max_num_batched_tokens=4096, prefix_caching=True)
LINEAR = BucketPolicy(strategy=Strategy.LINEAR)
KV_BLOCKS = 512


def sliced(tokens: int = 1024, from_tokens: int = 2048) -> Limits:
    return LONG.model_copy(
        update={"sliding_window_slices": BucketingAttentionSlices(tokens=tokens, from_tokens=from_tokens)}
    )


def test_long_prompt_buckets_without_context_are_multiples_of_slices() -> None:
    plan = make_plan(LINEAR, sliced(), KV_BLOCKS)
    long = [bucket.query_len for bucket in plan.prompt if bucket.num_blocks == 0 and bucket.query_len >= 2048]
    assert long == [2048, 3072, 4096]


def test_dropped_buckets_are_counted_by_their_rule() -> None:
    plan = make_plan(LINEAR, sliced(), KV_BLOCKS)
    counted = [each.count for each in plan.dropped if each.rule is PlanDropRule.NOT_WHOLE_SLICES]
    assert counted == [(4096 - 2048) // 128 + 1 - 3]


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_only_long_prompts_without_context_are_dropped(tokens: int, from_tokens: int) -> None:
    whole, cut = (set(make_plan(LINEAR, limits, KV_BLOCKS).prompt) for limits in (LONG, sliced(tokens, from_tokens)))
    assert cut <= whole
    for bucket in whole - cut:
        assert bucket.num_blocks == 0
        assert bucket.query_len >= from_tokens
        assert bucket.query_len % tokens


def test_decode_buckets_are_unchanged() -> None:
    assert make_plan(LINEAR, sliced(), KV_BLOCKS).decode == make_plan(LINEAR, LONG, KV_BLOCKS).decode
