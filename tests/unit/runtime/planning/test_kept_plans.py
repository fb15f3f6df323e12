"""The cache of plans: each plan is computed once, and the least recently used plan is removed first."""

from collections import Counter

import pytest

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.kept_plans import BYTES_PER_BUCKET, SMALL, KeptPlans
from gaudi_runtime.planning.planner import make_plan
from tests.support.policies import EXPONENTIAL

LIMITS = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024)
POLICY = EXPONENTIAL
PLAN = make_plan(POLICY, LIMITS, 300)
BYTES = SMALL + BYTES_PER_BUCKET * (len(PLAN.prompt) + len(PLAN.decode)) + 100
"""More bytes than one plan for these limits, and fewer than two."""


class Planner:
    """A planner that computes plans and counts them by their KV blocks."""

    def __init__(self) -> None:
        self.made: Counter[int] = Counter()

    def __call__(self, policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
        self.made[kv_blocks] += 1
        return make_plan(policy, limits, kv_blocks)


def kept(most_bytes: int) -> tuple[KeptPlans, Counter[int]]:
    planner = Planner()
    return KeptPlans(most_bytes, planner), planner.made


def test_plan_of_equal_inputs_is_made_once() -> None:
    plans, made = kept(BYTES)
    assert plans.get(POLICY, LIMITS, 300) == plans.get(POLICY.model_copy(), LIMITS.model_copy(), 300) == PLAN
    assert made == {300: 1}


def test_policy_and_limits_are_part_of_the_cache_key() -> None:
    plans, made = kept(2**20)
    plans.get(POLICY, LIMITS, 300)
    plans.get(BucketPolicy(strategy=Strategy.LINEAR), LIMITS, 300)
    plans.get(POLICY, LIMITS.model_copy(update={"max_num_seqs": 5}), 300)
    assert made == {300: 3}


def test_least_recently_used_plan_is_removed() -> None:
    plans, made = kept(2 * BYTES)
    for blocks in (300, 301, 300, 302, 300, 301):
        plans.get(POLICY, LIMITS, blocks)
    assert made == {300: 1, 301: 2, 302: 1}


def test_removed_plans_do_not_count_towards_the_cache_size() -> None:
    plans, made = kept(2 * BYTES)
    for blocks in (*range(300, 310), 308, 309):
        plans.get(POLICY, LIMITS, blocks)
    assert set(made.values()) == {1}


def test_plan_larger_than_the_cache_is_the_only_cached_plan() -> None:
    plans, made = kept(1)
    for blocks in (300, 300, 301, 301, 300):
        plans.get(POLICY, LIMITS, blocks)
    assert made == {300: 2, 301: 1}


def test_error_is_cached_with_its_field() -> None:
    plans, made = kept(BYTES)
    refusals = []
    for _ in range(2):
        with pytest.raises(PlanImpossible) as error:
            plans.get(BucketPolicy(strategy=Strategy.FILE, file="(1, 128)"), LIMITS, 300)
        refusals.append(error.value)
    assert refusals[0] is not refusals[1]
    assert refusals[0].args == refusals[1].args
    assert made == {300: 1}


def test_bytes_of_a_bucket_file_count_towards_the_cache_size() -> None:
    text = f"# {'x' * BYTES}\n(1, 1024, 0)\n(4, 1, 300)\n"
    policy = BucketPolicy(strategy=Strategy.FILE, file=text)
    plans, made = kept(2 * BYTES)
    for each in (policy, POLICY, policy):
        plans.get(each, LIMITS, 300)
    assert made == {300: 3}
