"""The fewest graphs that pad each kind of traffic no more than strategy `Exponential` does."""

from collections.abc import Iterable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.lookup import Finder
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import Cost
from gaudi_runtime.planning.optimal.exchange import Buckets
from gaudi_runtime.planning.optimal.optimizer import ChosenBuckets, Optimizer
from gaudi_runtime.planning.optimal.prior import TrafficKind, sum_traffic
from gaudi_runtime.traffic.histogram import Traffic

TOLERANCE = 0.005
"""The share by which padded compute may exceed that of the reference plan; less than the cost model's accuracy."""

LEAST_PADDING = 0.01
"""The padding of the reference plan, as a share, below which all kinds get the same weight."""


@dataclass(frozen=True)
class ReferencePlan:
    """The plan to compare with when searching the fewest graphs, with its limits and the cost of a batch."""

    plan: BucketPlan
    limits: Limits
    cost: Cost

    def padded_compute(self, phase: BucketPhase, kind: TrafficKind) -> float:
        """Return the compute of a kind of traffic that is padded by the reference plan."""
        return sum(
            weight * self.cost(phase, self._padded_bucket(phase, shape)) for shape, weight in kind.weights.items()
        )

    def _padded_bucket(self, phase: BucketPhase, shape: Bucket) -> Bucket:
        # The plans of the plugin may have gaps. A batch in a gap is padded to its fallback shape.
        return self.plan.find(phase, *shape) or self.plan.fallback(phase, self.limits, *shape)


def find_fewest_buckets(
    phase: BucketPhase, kinds: tuple[TrafficKind, ...], kv_blocks: int, reference: ReferencePlan
) -> ChosenBuckets:
    """Return the fewest buckets of a phase that pad each kind of traffic no more than its limit.

    The result has at most as many buckets as the reference plan, unless the admissible shapes need more. Raises
    PlanImpossible if there is no traffic.
    """
    computes = [reference.padded_compute(phase, kind) for kind in kinds]

    def is_enough(buckets: Buckets) -> bool:
        return all(
            _padded_compute(phase, buckets, kind, reference.cost) <= compute * (kind.max_ratio + TOLERANCE)
            for kind, compute in zip(kinds, computes, strict=True)
        )

    candidates = [
        Optimizer(_phase_traffic(phase, weighted_kinds), reference.limits, kv_blocks, reference.cost).minimize_buckets(
            phase, is_enough, len(reference.plan.buckets_of(phase))
        )
        for weighted_kinds in _weightings(phase, kinds, computes, reference.cost)
    ]
    # The search minimizes a weighted sum over all kinds of traffic. Several weightings are tried, because one weighting
    # usually needs fewer graphs.
    return min(candidates, key=lambda result: (not is_enough(result.buckets[phase]), len(result.buckets[phase])))


def _weightings(
    phase: BucketPhase, kinds: tuple[TrafficKind, ...], computes: list[float], cost: Cost
) -> Iterable[tuple[TrafficKind, ...]]:
    """Yield the kinds unchanged, and then with more weight for the kinds that the reference plan pads least."""
    yield kinds
    if len(kinds) > 1:
        unpadded = (sum(weight * cost(phase, shape) for shape, weight in kind.weights.items()) for kind in kinds)
        paddings = (max(compute / real - 1, LEAST_PADDING) for compute, real in zip(computes, unpadded, strict=True))
        yield tuple(
            TrafficKind(kind.name, {shape: weight / padding for shape, weight in kind.weights.items()}, kind.max_ratio)
            for kind, padding in zip(kinds, paddings, strict=True)
        )


def _phase_traffic(phase: BucketPhase, kinds: Iterable[TrafficKind]) -> Traffic:
    weights = sum_traffic(kinds)
    return Traffic(weights, {}) if phase is BucketPhase.PROMPT else Traffic({}, weights)


def _padded_compute(phase: BucketPhase, buckets: Buckets, kind: TrafficKind, cost: Cost) -> float:
    finder = Finder(buckets)
    costs = [cost(phase, bucket) for bucket in buckets]
    compute = 0.0
    for shape, weight in kind.weights.items():
        position = finder.find_position(*shape)
        if position is None:
            raise AssertionError(f"{tuple(shape)} has no bucket")
        compute += weight * costs[position]
    return compute
