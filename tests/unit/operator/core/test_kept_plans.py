"""Plans that the process which answers keeps: each is made once, and the one that was asked for longest ago goes."""

from collections import Counter

import pytest

from gaudi_operator.core.admission import plans
from gaudi_operator.core.admission.plans import BYTES_PER_BUCKET, SMALL, KeptPlans
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import PlanImpossible

LIMITS = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024)
POLICY = BucketPolicy()
PLAN = make_plan(POLICY, LIMITS, 300)
BYTES = SMALL + BYTES_PER_BUCKET * (len(PLAN.prompt) + len(PLAN.decode)) + 100
"""More than one plan for these limits takes, and less than two."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Count the plans that are made, by their KV blocks."""
    counts: Counter[int] = Counter()

    def counted(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
        counts[kv_blocks] += 1
        return make_plan(policy, limits, kv_blocks)

    monkeypatch.setattr(plans, "make_plan", counted)
    return counts


def test_plan_is_made_once(made: Counter[int]) -> None:
    kept = KeptPlans(BYTES)
    assert kept.get(POLICY, LIMITS, 300) == kept.get(POLICY, LIMITS, 300) == PLAN
    assert made == {300: 1}


def test_plan_that_was_asked_for_longest_ago_goes(made: Counter[int]) -> None:
    kept = KeptPlans(2 * BYTES)
    for blocks in (300, 301, 300, 302, 300, 301):
        kept.get(POLICY, LIMITS, blocks)
    assert made == {300: 1, 301: 2, 302: 1}


def test_plan_that_went_leaves_its_room(made: Counter[int]) -> None:
    kept = KeptPlans(2 * BYTES)
    for blocks in (*range(300, 310), 308, 309):
        kept.get(POLICY, LIMITS, blocks)
    assert set(made.values()) == {1}


def test_plan_larger_than_the_room_is_kept_alone(made: Counter[int]) -> None:
    kept = KeptPlans(1)
    for blocks in (300, 300, 301, 301, 300):
        kept.get(POLICY, LIMITS, blocks)
    assert made == {300: 2, 301: 1}


def test_refusal_is_kept(made: Counter[int]) -> None:
    kept = KeptPlans(BYTES)
    for _ in range(2):
        with pytest.raises(PlanImpossible, match="no room for a single KV block"):
            kept.get(POLICY, LIMITS, 0)
    assert made == {0: 1}


def test_text_of_a_policy_takes_room(made: Counter[int]) -> None:
    text = f"# {'x' * BYTES}\n(1, 1024, 0)\n(4, 1, 300)\n"
    policy = BucketPolicy(strategy=Strategy.FILE, file=text)
    kept = KeptPlans(2 * BYTES)
    for each in (policy, POLICY, policy):
        kept.get(each, LIMITS, 300)
    assert made == {300: 3}
