"""The search compared with manual decode grids that have the same number of graphs."""

from functools import cache

import pytest

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.coverage import plan_coverage
from gaudi_runtime.planning.optimal.cost import score_plan_cost, typical_cost
from gaudi_runtime.planning.optimal.prior import prior_traffic, sum_prior_traffic
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic
from tests.support.grids import GRIDS, decode_grid

DECODE = BucketPhase.DECODE
LIMITS = Limits(
    max_model_len=8192,
    max_num_seqs=128,
    max_num_batched_tokens=8192,
    contiguous_paged_attention=False,
    gapless=True,
)
"""The limits of the 8B example, with and without fewer KV blocks."""
KV_BLOCKS = 4774
CONTIGUOUS = LIMITS.model_copy(update={"contiguous_paged_attention": True})


@cache
def prior_of(limits: Limits) -> Traffic:
    return Traffic({}, sum_prior_traffic(prior_traffic(DECODE, limits, KV_BLOCKS, typical_cost(128))))


def padding(plan: BucketPlan, limits: Limits) -> float:
    assert plan_coverage(plan, limits, KV_BLOCKS).decode.missing == 0
    found = score_plan_cost(plan, DECODE, prior_of(limits), typical_cost(128))
    assert found.coverage == 1.0
    assert found.padding is not None
    return found.padding


@pytest.mark.parametrize(("name", "graphs"), [("9 x 8", 71), ("12 x 5", 59), ("8 x 5", 40)])
def test_decode_grid_has_the_proposed_number_of_graphs(name: str, graphs: int) -> None:
    assert len(decode_grid(name, LIMITS, KV_BLOCKS)) == graphs


@pytest.mark.parametrize("limits", [LIMITS, CONTIGUOUS], ids=["plain", "contiguous"])
@pytest.mark.parametrize("name", GRIDS)
def test_search_pads_less_than_a_grid_of_the_same_size(name: str, limits: Limits) -> None:
    grid = decode_grid(name, limits, KV_BLOCKS)
    settings = OptimalSettings(prompt_graphs=4, decode_graphs=len(grid))
    plan = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings), limits, KV_BLOCKS)
    assert len(plan.decode) <= len(grid)
    assert padding(plan, limits) <= padding(BucketPlan((), grid), limits)
