"""Decode buckets for steps that verify drafts."""

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import most_decode_blocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.config import plan_hash
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.speculative import verification_buckets
from tests.support.policies import EXPONENTIAL

LIMITS = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024, contiguous_paged_attention=False)
STRATEGIES = (Strategy.OPTIMAL, Strategy.EXPONENTIAL)
DRAFTING = LIMITS.model_copy(update={"draft_tokens": 3})


def test_verify_bucket_has_a_row_for_every_token() -> None:
    assert verification_buckets(Bucket(2, 1, 4), 3, LIMITS) == [Bucket(8, 1, 16)]


def test_verify_buckets_include_a_bucket_with_fewer_blocks() -> None:
    assert verification_buckets(Bucket(2, 1, 8), 3, LIMITS) == [Bucket(8, 1, 8), Bucket(8, 1, 32)]


def test_blocks_of_a_verify_bucket_are_limited_to_full_sequences() -> None:
    assert verification_buckets(Bucket(1, 1, 16), 1, LIMITS) == [Bucket(2, 1, 16), Bucket(2, 1, 16)]


def test_plan_with_drafts_contains_the_plan_without_drafts() -> None:
    plain, drafting = (make_plan(EXPONENTIAL, each, 300) for each in (LIMITS, DRAFTING))
    assert drafting.seeds == plain.decode
    assert set(plain.decode) < set(drafting.decode)
    assert drafting.prompt == plain.prompt


def test_hash_of_a_plan_without_drafts_is_unchanged() -> None:
    """Without drafts, an operator and a runtime of different releases must compute the same hash."""
    said = {"maxModelLen": 1024, "maxNumSeqs": 4, "maxNumBatchedTokens": 1024, "contiguousPagedAttention": False}
    assert plan_hash(EXPONENTIAL, LIMITS) == plan_hash(EXPONENTIAL, Limits.model_validate(said))
    assert plan_hash(EXPONENTIAL, LIMITS) != plan_hash(EXPONENTIAL, DRAFTING)


@pytest.mark.parametrize(
    "settings", [OptimalSettings(traffic="prompt 1 90 0 5\ndecode 1 1 2 5"), OptimalSettings(decode_graphs=8)]
)
def test_optimal_with_drafts_refuses_traffic_and_budget(settings: OptimalSettings) -> None:
    policy = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings)
    with pytest.raises(PlanImpossible, match=r"bucketing\.optimal: with speculative decoding"):
        make_plan(policy, DRAFTING, 300)


def test_optimal_plans_every_step_that_verifies_drafts() -> None:
    limits = DRAFTING.model_copy(update={"max_num_seqs": 64, "max_model_len": 8192, "gapless": True})
    optimal, exponential = (make_plan(BucketPolicy(strategy=each), limits, 4000) for each in STRATEGIES)
    assert len(optimal.decode) < len(exponential.decode)
    seeds = BucketPlan(prompt=(), decode=optimal.seeds)
    for size in range(1, 65):
        for blocks in range(size, most_decode_blocks(size, limits, 4000) + 1, 7):
            seed = seeds.find(BucketPhase.DECODE, size, 1, blocks)
            assert seed
            rows = 4 * seed.batch_size
            found = optimal.find(BucketPhase.DECODE, rows, 1, 4 * blocks)
            assert found
            assert found.batch_size == rows
