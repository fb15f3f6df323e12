"""The fewest graphs that pad each kind of traffic no more than strategy `Exponential` does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.lookup import BucketLookup
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.admissible_shapes import admissible_shape_space
from gaudi_runtime.planning.optimal.axes import cells_of_axes, choose_axes
from gaudi_runtime.planning.optimal.cost import Cost, price_in_graphs
from gaudi_runtime.planning.optimal.optimizer import optimize_within_budget, optimizer_needs_rows
from gaudi_runtime.planning.optimal.prior import PriorTrafficKind, sum_prior_traffic
from gaudi_runtime.planning.optimal.search import Buckets, Search, SearchPhaseInput
from gaudi_runtime.traffic.histogram import Weights

TOLERANCE = 0.005
"""The share by which padded compute may exceed that of the reference plan; less than the cost model's accuracy."""


@dataclass(frozen=True)
class FewestGraphsReference:
    """The plan to compare with when searching the fewest graphs, with its limits and the cost of a batch."""

    plan: BucketPlan
    limits: Limits
    cost: Cost

    def padded_compute(self, phase: BucketPhase, kind: PriorTrafficKind) -> float:
        """Return the compute of a kind of traffic that is padded by the reference plan."""
        return sum(
            weight * self.cost(phase, self._padded_bucket(phase, shape)) for shape, weight in kind.weights.items()
        )

    def most_compute(self, phase: BucketPhase, kind: PriorTrafficKind) -> float:
        """Return the limit of the padded compute of a kind of traffic."""
        real_compute = sum(weight * self.cost(phase, shape) for shape, weight in kind.weights.items())
        return max(self.padded_compute(phase, kind) * (kind.max_ratio + TOLERANCE), real_compute * kind.allowed_padding)

    def _padded_bucket(self, phase: BucketPhase, shape: Bucket) -> Bucket:
        # The plans of the plugin may have gaps. A batch in a gap is padded to its fallback shape.
        return self.plan.find(phase, *shape) or self.plan.fallback(phase, self.limits, *shape)


def find_fewest_buckets(
    phase: BucketPhase, kinds: tuple[PriorTrafficKind, ...], kv_blocks: int, reference: FewestGraphsReference
) -> Buckets:
    """Return few buckets of a phase that pad each kind of traffic no more than its limit.

    The result has at most as many buckets as the reference plan, unless the admissible shapes need more. Raises
    PlanImpossible if there is no traffic.
    """
    if not any(kind.weights for kind in kinds):
        raise PlanImpossible(f"the traffic of strategy Optimal has no {phase} shape within the limits")
    fewest = _FewestGraphs(phase, kinds, kv_blocks, reference)
    return fewest.search_buckets(len(reference.plan.buckets_of(phase)))


class _FewestGraphs:
    """The search for a plan within the limits of all kinds. Only kinds above their limits have weight."""

    def __init__(
        self, phase: BucketPhase, kinds: tuple[PriorTrafficKind, ...], kv_blocks: int, reference: FewestGraphsReference
    ) -> None:
        self._phase, self._kinds, self._cost = phase, kinds, reference.cost
        self._limits = [reference.most_compute(phase, kind) for kind in kinds]
        space = admissible_shape_space(phase, reference.limits, kv_blocks)
        axes = choose_axes(space, sum_prior_traffic(kinds))
        self._cells: list[Weights] = []
        for kind, limit in zip(kinds, self._limits, strict=True):
            rounded, kept = cells_of_axes(space, kind.weights, axes)
            self._cells.append({cell: weight / limit for cell, weight in {**rounded, **kept}.items()})
        self._all = range(len(kinds))
        cells = SearchPhaseInput(space, axes, self._sum_cells(self._all), optimizer_needs_rows(phase, reference.limits))
        self._search = Search([cells], self._cost, price_in_graphs)

    def search_buckets(self, max_buckets: int) -> Buckets:
        """Return the smallest plan found within the limits, or one of `max_buckets` if none is found."""
        search, best = self._search, None
        for start in search.starts():
            most = len(best) - 1 if best else max_buckets
            search.start(start, start)
            if len(start) <= most and self._grow_to_limits(most):
                self._drop_needless()
                best = search.plan
        if best is None:
            self._weigh(self._all)
            search.start(next(iter(search.starts())))
            optimize_within_budget(search, max(max_buckets, search.least_price))
        else:
            search.start(best)
        return search.buckets(self._phase)

    def _grow_to_limits(self, max_buckets: int) -> bool:
        """Add the best candidate for the kinds above their limits; return False if `max_buckets` are not enough."""
        exceeding = self._exceeding(self._all)
        while exceeding and len(self._search.plan) < max_buckets:
            self._weigh(exceeding)
            best = self._search.best(1)
            if best is None:
                return False
            self._search.add(best)
            # A bucket for other kinds rarely makes a kind exceed its limit again, so all kinds are checked at the end.
            exceeding = self._exceeding(exceeding) or self._exceeding(self._all)
        return not exceeding

    def _drop_needless(self) -> None:
        """Remove buckets, the least useful ones first, while no kind exceeds its limit."""
        self._weigh(self._all)
        for _, position in self._search.losses():
            self._search.remove(position)
            if self._exceeding(self._all):
                self._search.add(position)

    def _exceeding(self, kinds: Iterable[int]) -> list[int]:
        """Return those of the kinds whose padded compute exceeds their limits."""
        buckets = self._search.buckets(self._phase)
        finder, costs = BucketLookup(buckets), [self._cost(self._phase, bucket) for bucket in buckets]
        return [kind for kind in kinds if self._padded_compute(kind, finder, costs) > self._limits[kind]]

    def _padded_compute(self, kind: int, finder: BucketLookup, costs: Sequence[float]) -> float:
        compute = 0.0
        for shape, weight in self._kinds[kind].weights.items():
            position = finder.find_position(*shape)
            if position is None:
                raise AssertionError(f"{tuple(shape)} has no bucket")
            compute += weight * costs[position]
        return compute

    def _sum_cells(self, kinds: Iterable[int]) -> Weights:
        cells: dict[Bucket, float] = {}
        for kind in kinds:
            for cell, weight in self._cells[kind].items():
                cells[cell] = cells.get(cell, 0.0) + weight
        return cells

    def _weigh(self, kinds: Iterable[int]) -> None:
        self._search.weigh({(self._phase, cell): weight for cell, weight in self._sum_cells(kinds).items()})
