"""Plans of small policies, as recorded from this code (tests/data/optimal_plans.json). Any change of a plan fails.

Other tests check the quality of such plans (test_search.py, tests/benchmarks/brute_force.py).
These tests check that a policy keeps its graphs from one release to the next.
"""

import json
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from tests.unit.runtime.planning.vectors import DATA

PLANS = json.loads((DATA / "optimal_plans.json").read_text())


@pytest.mark.parametrize("plan", PLANS, ids=[plan["name"] for plan in PLANS])
def test_plan_equals_the_recorded_plan(plan: dict[str, Any]) -> None:
    settings = OptimalSettings(traffic="\n".join(plan["traffic"]) or None, **plan["budget"])
    policy = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings)
    made = make_plan(policy, Limits(**plan["limits"]), plan["kv_blocks"])
    for phase in BucketPhase:
        assert [list(bucket) for bucket in made.buckets_of(phase)] == plan[phase]
