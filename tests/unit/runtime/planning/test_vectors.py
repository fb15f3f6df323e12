"""Plans and lookups equal the recorded results of the public planners (tests/data/bucketing.json)."""

from typing import Any

import pytest

from gaudi_runtime.buckets.lookup import round_up_for_lookup
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from tests.unit.runtime.planning.vectors import VECTORS, digest, limits_of, policy_of

CASES = pytest.mark.parametrize(
    "case", VECTORS["cases"], ids=[f"{n}-{case['strategy']}" for n, case in enumerate(VECTORS["cases"])]
)


@CASES
def test_plan_of_a_vector_equals_the_recorded_buckets(case: dict[str, Any]) -> None:
    plan = make_plan(policy_of(case), limits_of(case), case["num_blocks"])
    for phase in BucketPhase:
        expected = case[phase]
        assert len(plan.buckets_of(phase)) == expected["count"]
        assert digest(plan.buckets_of(phase)) == expected["sha256"]
        if "buckets" in expected:
            assert [list(bucket) for bucket in plan.buckets_of(phase)] == expected["buckets"]


@CASES
def test_lookups_and_fallbacks_of_a_vector_equal_the_recorded(case: dict[str, Any]) -> None:
    limits = limits_of(case)
    plan = make_plan(policy_of(case), limits, case["num_blocks"])
    for phase, wanted, found, rounded in case["lookups"]:
        bucket = plan.find(BucketPhase(phase), *wanted)
        assert (list(bucket) if bucket else None) == found
        assert list(plan.fallback(BucketPhase(phase), limits, *wanted)) == rounded


@pytest.mark.parametrize(("value", "base", "expected"), VECTORS["fallback"])
def test_fallback_of_a_value_equals_the_recorded_value(value: int, base: int, expected: int) -> None:
    assert round_up_for_lookup(value, base) == expected
