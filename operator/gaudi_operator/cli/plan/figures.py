"""The figures of one plan: graphs, bytes, warm-up seconds, padding, coverage, and the least useful graphs.

`figures_of` computes the figures. If there is no trace, padding is computed for the traffic of `expected_traffic`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from operator import le

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.coverage import PhaseCoverage, PlanCoverage, plan_coverage
from gaudi_runtime.planning.optimal.cost import (
    Cost,
    PlanScore,
    price_in_bytes,
    price_in_seconds,
    score_plan,
    typical_cost,
)
from gaudi_runtime.planning.optimal.optimizer import BOTH
from gaudi_runtime.planning.optimal.prior import prior_traffic, sum_traffic
from gaudi_runtime.traffic.histogram import Traffic, parse_traffic

LAST_GRAPHS = 10


@dataclass(frozen=True)
class ExpectedTraffic:
    """The traffic for which the figures of plans are computed: batches, their cost, and a sentence about the source."""

    traffic: Traffic
    cost: Cost
    source: str


def expected_traffic(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> ExpectedTraffic:
    """Return the traffic for which padding is computed: the traffic in the policy, or else a uniform prior."""
    cost = typical_cost(limits.block_size)
    if policy.optimal is not None and policy.optimal.traffic is not None:
        # Ignore a traffic text that cannot be parsed. The strategy Optimal reports the invalid line.
        with suppress(PlanImpossible):
            traffic = parse_traffic(policy.optimal.traffic)
            return ExpectedTraffic(
                traffic, cost, "padding is computed for bucketing.optimal.traffic, from which Optimal learns"
            )
    phases = (sum_traffic(prior_traffic(phase, limits, kv_blocks, cost)) for phase in BOTH)
    return ExpectedTraffic(
        Traffic(*phases), cost, "padding is computed for a uniform prior, because no traffic is given"
    )


@dataclass(frozen=True)
class PlanFigures:
    """The figures of one plan: graphs, bytes, warm-up seconds, padding and coverage.

    `graph_bytes` is None if the bytes of graphs are unknown. `last_graphs_increase` is the relative increase of the
    padded compute of both phases if the LAST_GRAPHS graphs that save least are removed. `last_graphs_increase` is None
    if fewer graphs can be removed.
    """

    scores: Mapping[BucketPhase, PlanScore]
    plan_coverage: PlanCoverage
    graph_bytes: int | None
    warmup_seconds: float
    last_graphs_increase: float | None

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


def figures_of(
    plan: BucketPlan, limits: Limits, kv_blocks: int, expected: ExpectedTraffic, *, bytes_unknown: bool = False
) -> PlanFigures:
    """Return the figures of one plan for the expected traffic.

    Bytes and seconds are estimated from the rates of HPU graphs.
    """
    phase_buckets = [(phase, bucket) for phase in BOTH for bucket in plan.buckets_of(phase)]
    bytes_of = price_in_bytes(limits.block_size)
    return PlanFigures(
        scores={phase: score_plan(plan, phase, expected.traffic, expected.cost) for phase in BOTH},
        plan_coverage=plan_coverage(plan, limits, kv_blocks),
        graph_bytes=None if bytes_unknown else round(sum(bytes_of(*phase_bucket) for phase_bucket in phase_buckets)),
        warmup_seconds=round(sum(price_in_seconds(*phase_bucket) for phase_bucket in phase_buckets), 1),
        last_graphs_increase=increase_without_last_graphs(plan, limits, expected),
    )


def increase_without_last_graphs(
    plan: BucketPlan, limits: Limits, expected: ExpectedTraffic, count: int = LAST_GRAPHS
) -> float | None:
    """Return the relative increase of padded compute if the `count` graphs that save least are removed.

    The graphs are removed one by one. A graph can be removed if a larger graph fits all of its batches, so that the
    coverage stays the same. The increase may be negative, because the first bucket that fits a batch is not always the
    cheapest bucket. Returns None if fewer than `count` graphs can be removed. Also returns None if the plan has draft
    tokens, because the traffic does not show which steps have draft tokens.
    """
    if plan.seeds:
        return None
    phases = [_RemainingBuckets(phase, plan, limits, expected) for phase in BOTH]
    padding = sum(phase.padding for phase in phases)
    if not padding:
        return None
    increase = 0.0
    for _ in range(count):
        cheapest_removal = min(
            (removal for phase in phases for removal in phase.possible_removals()),
            key=lambda removal: removal[0],
            default=None,
        )
        if cheapest_removal is None:
            return None
        removal_cost, phase, position = cheapest_removal
        increase += removal_cost
        phase.remove_bucket(position)
    return increase / padding


class _RemainingBuckets:
    """The buckets of one phase that remain, with the shapes of each bucket and the weights of the shapes.

    Costs are shares of the real compute of all shapes of the phase, so that the costs of both phases can be added.
    """

    def __init__(self, phase: BucketPhase, plan: BucketPlan, limits: Limits, expected: ExpectedTraffic) -> None:
        self._buckets = list(plan.buckets_of(phase))
        # With contiguous paged attention, decode buckets form one row per batch size. Each row needs a bucket with the
        # maximum number of blocks (docs/internals/optimal.md, Rows and ladders).
        self._requires_same_batch = phase is BucketPhase.DECODE and limits.contiguous_paged_attention
        self._weighted_shapes: dict[Bucket, list[tuple[Bucket, float]]] = {bucket: [] for bucket in self._buckets}
        real_compute = 0.0
        for shape, weight in expected.traffic.shapes_of(phase).items():
            bucket = plan.find(phase, *shape)
            if bucket is not None:
                self._weighted_shapes[bucket].append((shape, weight))
                real_compute += weight * expected.cost(phase, shape)
        self._costs = (
            {bucket: expected.cost(phase, bucket) / real_compute for bucket in self._buckets} if real_compute else {}
        )
        self.padding = sum(
            self._costs[bucket] * weight
            for bucket, weighted_shapes in self._weighted_shapes.items()
            for _, weight in weighted_shapes
        )

    def possible_removals(self) -> Iterator[tuple[float, "_RemainingBuckets", int]]:
        """Yield the cost of removal, the phase and the position of each removable bucket.

        If several removable buckets have no shapes, only the first one is included.
        """
        unused_found = False
        for position, bucket in enumerate(self._buckets):
            if (self._weighted_shapes[bucket] or not unused_found) and self._is_removable(position):
                yield sum(self._removal_costs(position)), self, position
                unused_found = unused_found or not self._weighted_shapes[bucket]

    def _is_removable(self, position: int) -> bool:
        bucket = self._buckets[position]
        larger_buckets = (other for other in islice(self._buckets, position + 1, None) if all(map(le, bucket, other)))
        return any(not self._requires_same_batch or other.batch_size == bucket.batch_size for other in larger_buckets)

    def _removal_costs(self, position: int) -> Iterator[float]:
        current_cost = self._costs[self._buckets[position]]
        for shape, weight in self._weighted_shapes[self._buckets[position]]:
            yield weight * (self._costs[self._next_fitting_bucket(position, shape)] - current_cost)

    def _next_fitting_bucket(self, position: int, shape: Bucket) -> Bucket:
        """Return the next bucket that fits `shape`, after the bucket at position `position`."""
        return next(bucket for bucket in islice(self._buckets, position + 1, None) if all(map(le, shape, bucket)))

    def remove_bucket(self, position: int) -> None:
        """Remove the bucket at `position`, and assign each of its shapes to the next bucket that fits the shape."""
        for shape, weight in self._weighted_shapes.pop(self._buckets[position]):
            self._weighted_shapes[self._next_fitting_bucket(position, shape)].append((shape, weight))
        del self._buckets[position]
