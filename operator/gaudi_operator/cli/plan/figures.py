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
            learned = parse_traffic(policy.optimal.traffic)
            return ExpectedTraffic(
                learned, cost, "padding is computed for bucketing.optimal.traffic, from which Optimal learns"
            )
    phases = (sum_traffic(prior_traffic(phase, limits, kv_blocks, cost)) for phase in BOTH)
    return ExpectedTraffic(
        Traffic(*phases), cost, "padding is computed for a uniform prior, because no traffic is given"
    )


@dataclass(frozen=True)
class PlanFigures:
    """The figures of one plan: graphs, bytes, warm-up seconds, padding and coverage.

    `graph_bytes` is None if the bytes of graphs are unknown. `last_graphs` is the relative increase of the padded
    compute of both phases if the LAST_GRAPHS graphs that save least are removed. `last_graphs` is None if fewer graphs
    can be removed.
    """

    scores: Mapping[BucketPhase, PlanScore]
    uncovered: PlanCoverage
    graph_bytes: int | None
    warmup_seconds: float
    last_graphs: float | None

    @property
    def graphs(self) -> int:
        """The number of graphs of both phases."""
        return sum(each.graphs for each in self.scores.values())

    @property
    def padding(self) -> float | None:
        """The mean padding of both phases, with equal weights, because the time that each phase takes is unknown."""
        known = [each.padding for each in self.scores.values() if each.padding is not None]
        return sum(known) / len(known) if known else None

    @property
    def coverage(self) -> Mapping[BucketPhase, float]:
        """The share of admissible shapes that have a bucket, by phase."""
        return {each.phase: _covered_share(each) for each in (self.uncovered.prompt, self.uncovered.decode)}

    @property
    def missing_count(self) -> int:
        """The number of admissible shapes of both phases without a bucket."""
        return self.uncovered.prompt.missing + self.uncovered.decode.missing


def _covered_share(phase: PhaseCoverage) -> float:
    return 1 - phase.missing / phase.shapes if phase.shapes else 1.0


def figures_of(
    plan: BucketPlan, limits: Limits, kv_blocks: int, expected: ExpectedTraffic, *, bytes_unknown: bool = False
) -> PlanFigures:
    """Return the figures of one plan for the expected traffic.

    Bytes and seconds are estimated from the rates of HPU graphs.
    """
    buckets = [(phase, bucket) for phase in BOTH for bucket in plan.buckets_of(phase)]
    bytes_of = price_in_bytes(limits.block_size)
    return PlanFigures(
        scores={phase: score_plan(plan, phase, expected.traffic, expected.cost) for phase in BOTH},
        uncovered=plan_coverage(plan, limits, kv_blocks),
        graph_bytes=None if bytes_unknown else round(sum(bytes_of(*each) for each in buckets)),
        warmup_seconds=round(sum(price_in_seconds(*each) for each in buckets), 1),
        last_graphs=increase_without_last_graphs(plan, limits, expected),
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
    before = sum(each.padding for each in phases)
    if not before:
        return None
    risen = 0.0
    for _ in range(count):
        least = min(
            (step for each in phases for step in each.possible_removals()), key=lambda step: step[0], default=None
        )
        if least is None:
            return None
        loss, phase, at = least
        risen += loss
        phase.remove_bucket(at)
    return risen / before


class _RemainingBuckets:
    """The buckets of one phase that remain, with the shapes of each bucket and the weights of the shapes.

    Costs are shares of the real compute of all shapes of the phase, so that the costs of both phases can be added.
    """

    def __init__(self, phase: BucketPhase, plan: BucketPlan, limits: Limits, expected: ExpectedTraffic) -> None:
        self._buckets = list(plan.buckets_of(phase))
        # With contiguous paged attention, decode buckets form one row per batch size. Each row needs a bucket with the
        # maximum number of blocks (docs/internals/optimal.md, Rows and ladders).
        self._in_rows = phase is BucketPhase.DECODE and limits.contiguous_paged_attention
        self._users: dict[Bucket, list[tuple[Bucket, float]]] = {bucket: [] for bucket in self._buckets}
        real = 0.0
        for shape, weight in expected.traffic.shapes_of(phase).items():
            bucket = plan.find(phase, *shape)
            if bucket is not None:
                self._users[bucket].append((shape, weight))
                real += weight * expected.cost(phase, shape)
        self._costs = {bucket: expected.cost(phase, bucket) / real for bucket in self._buckets} if real else {}
        self.padding = sum(self._costs[each] * weight for each, users in self._users.items() for _, weight in users)

    def possible_removals(self) -> Iterator[tuple[float, "_RemainingBuckets", int]]:
        """Yield the cost of removal, the phase and the position of each removable bucket.

        If several removable buckets have no shapes, only the first one is included.
        """
        unused = False
        for at, bucket in enumerate(self._buckets):
            if (self._users[bucket] or not unused) and self._is_removable(at):
                yield sum(self._removal_costs(at)), self, at
                unused = unused or not self._users[bucket]

    def _is_removable(self, at: int) -> bool:
        bucket = self._buckets[at]
        larger = (each for each in islice(self._buckets, at + 1, None) if all(map(le, bucket, each)))
        return any(not self._in_rows or each.batch_size == bucket.batch_size for each in larger)

    def _removal_costs(self, at: int) -> Iterator[float]:
        paid = self._costs[self._buckets[at]]
        for shape, weight in self._users[self._buckets[at]]:
            yield weight * (self._costs[self._next_fitting_bucket(at, shape)] - paid)

    def _next_fitting_bucket(self, at: int, shape: Bucket) -> Bucket:
        """Return the next bucket that fits `shape`, after the bucket at position `at`."""
        return next(each for each in islice(self._buckets, at + 1, None) if all(map(le, shape, each)))

    def remove_bucket(self, at: int) -> None:
        """Remove the bucket at position `at`, and assign each of its shapes to the next bucket that fits the shape."""
        for shape, weight in self._users.pop(self._buckets[at]):
            self._users[self._next_fitting_bucket(at, shape)].append((shape, weight))
        del self._buckets[at]
