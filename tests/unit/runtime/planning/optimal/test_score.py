"""The padding of a plan for given traffic."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import PlanCostScore, score_plan_cost
from gaudi_runtime.traffic.histogram import Traffic
from tests.support.token_cost import token_cost

PLAN = BucketPlan(prompt=(Bucket(1, 128, 0), Bucket(1, 256, 0)), decode=(Bucket(4, 1, 8),))
COST = token_cost(block_size=128)


def test_padding_is_the_ratio_of_padded_to_real_tokens() -> None:
    traffic = Traffic({Bucket(1, 64, 0): 2, Bucket(1, 200, 0): 1, Bucket(1, 999, 0): 1}, {})
    assert score_plan_cost(PLAN, BucketPhase.PROMPT, traffic, COST) == PlanCostScore(
        2, (2 * 128 + 256) / (2 * 64 + 200), 0.75
    )


def test_decode_padding_includes_new_tokens_and_block_tokens() -> None:
    traffic = Traffic({}, {Bucket(2, 1, 4): 1})
    assert score_plan_cost(PLAN, BucketPhase.DECODE, traffic, COST) == PlanCostScore(
        1, (4 + 8 * 128) / (2 + 4 * 128), 1.0
    )


def test_phase_without_traffic_has_no_padding() -> None:
    assert score_plan_cost(PLAN, BucketPhase.DECODE, Traffic({}, {}), COST) == PlanCostScore(1, None, None)
