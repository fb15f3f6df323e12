"""The figures of one plan: graphs, bytes, warm-up seconds, padding and coverage.

`calculate_plan_figures` computes the figures. If there is no trace, padding is computed for the traffic of
`traffic_for_plan_figures`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.coverage import PhaseCoverage, PlanCoverage, plan_coverage
from gaudi_runtime.planning.optimal.cost import (
    Cost,
    PlanCostScore,
    price_in_bytes,
    price_in_seconds,
    score_plan_cost,
    typical_cost,
)
from gaudi_runtime.planning.optimal.optimizer import BOTH
from gaudi_runtime.planning.optimal.prior import prior_traffic, sum_prior_traffic
from gaudi_runtime.traffic.histogram import Traffic, parse_traffic


@dataclass(frozen=True)
class _ExpectedTraffic:
    """The traffic for which the figures of plans are computed: batches, their cost, and a sentence about the source."""

    traffic: Traffic
    cost: Cost
    source: str


def traffic_for_plan_figures(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> _ExpectedTraffic:
    """Return the traffic for which padding is computed: the traffic in the policy, or else a uniform prior."""
    cost = typical_cost(limits.block_size)
    if policy.optimal is not None and policy.optimal.traffic is not None:
        # Ignore a traffic text that cannot be parsed. The strategy Optimal reports the invalid line.
        with suppress(PlanImpossible):
            traffic = parse_traffic(policy.optimal.traffic)
            return _ExpectedTraffic(
                traffic, cost, "padding is computed for bucketing.optimal.traffic, from which Optimal learns"
            )
    phases = (sum_prior_traffic(prior_traffic(phase, limits, kv_blocks, cost)) for phase in BOTH)
    return _ExpectedTraffic(
        Traffic(*phases), cost, "padding is computed for a uniform prior, because no traffic is given"
    )


@dataclass(frozen=True)
class PlanFigures:
    """The figures of one plan: graphs, bytes, warm-up seconds, padding and coverage.

    `graph_bytes` is None if the bytes of graphs are unknown.
    """

    scores: Mapping[BucketPhase, PlanCostScore]
    plan_coverage: PlanCoverage
    graph_bytes: int | None
    warmup_seconds: float

    @property
    def graphs(self) -> int:
        """The number of graphs of both phases."""
        return sum(score.graphs for score in self.scores.values())

    @property
    def padding(self) -> float | None:
        """The mean padding of both phases, with equal weights, because the time that each phase takes is unknown."""
        paddings = [score.padding for score in self.scores.values() if score.padding is not None]
        return sum(paddings) / len(paddings) if paddings else None

    @property
    def coverage(self) -> Mapping[BucketPhase, float]:
        """The share of admissible shapes that have a bucket, by phase."""
        return {
            phase_coverage.phase: _covered_share(phase_coverage)
            for phase_coverage in (self.plan_coverage.prompt, self.plan_coverage.decode)
        }

    @property
    def missing_count(self) -> int:
        """The number of admissible shapes of both phases without a bucket."""
        return self.plan_coverage.prompt.missing + self.plan_coverage.decode.missing


def _covered_share(phase_coverage: PhaseCoverage) -> float:
    return 1 - phase_coverage.missing / phase_coverage.shapes if phase_coverage.shapes else 1.0


def calculate_plan_figures(
    plan: BucketPlan, limits: Limits, kv_blocks: int, expected: _ExpectedTraffic, *, bytes_unknown: bool = False
) -> PlanFigures:
    """Return the figures of one plan for the expected traffic.

    Bytes and seconds are estimated from the rates of HPU graphs.
    """
    phase_buckets = [(phase, bucket) for phase in BOTH for bucket in plan.buckets_of(phase)]
    bytes_of = price_in_bytes(limits.block_size)
    return PlanFigures(
        scores={phase: score_plan_cost(plan, phase, expected.traffic, expected.cost) for phase in BOTH},
        plan_coverage=plan_coverage(plan, limits, kv_blocks),
        graph_bytes=None if bytes_unknown else round(sum(bytes_of(*phase_bucket) for phase_bucket in phase_buckets)),
        warmup_seconds=round(sum(price_in_seconds(*phase_bucket) for phase_bucket in phase_buckets), 1),
    )
