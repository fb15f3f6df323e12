"""The cost and the benefit of a plan."""

import pytest

from gaudi_operator.cli.plan.plan_figures import calculate_plan_figures, traffic_for_plan_figures
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.planning.planner import make_plan
from tests.support.policies import EXPONENTIAL

PROMPT, DECODE = BucketPhase
LIMITS = Limits(
    max_model_len=8192,
    max_num_seqs=32,
    max_num_batched_tokens=8192,
    contiguous_paged_attention=False,
    gapless=True,
)
KV_BLOCKS = 1200


def test_plan_figures_combine_both_phases() -> None:
    plan = make_plan(EXPONENTIAL, LIMITS, KV_BLOCKS)
    found = calculate_plan_figures(plan, LIMITS, KV_BLOCKS, traffic_for_plan_figures(EXPONENTIAL, LIMITS, KV_BLOCKS))
    assert found.graphs == len(plan.prompt) + len(plan.decode)
    assert found.padding == pytest.approx(sum(each.padding or 0 for each in found.scores.values()) / 2)
    assert found.coverage == {PROMPT: 1.0, DECODE: 1.0}
    assert found.missing_count == 0


def test_expected_traffic_is_the_traffic_of_the_policy() -> None:
    learned = BucketPolicy(optimal=OptimalSettings(traffic="prompt 1 700 0 3"))
    assert traffic_for_plan_figures(learned, LIMITS, KV_BLOCKS).traffic.prompt == {Bucket(1, 700, 0): 3.0}
    assert len(traffic_for_plan_figures(EXPONENTIAL, LIMITS, KV_BLOCKS).traffic.prompt) > 20
    assert traffic_for_plan_figures(learned, LIMITS, KV_BLOCKS).cost(PROMPT, Bucket(1, 128, 0)) == typical_cost(128)(
        PROMPT, Bucket(1, 128, 0)
    )
