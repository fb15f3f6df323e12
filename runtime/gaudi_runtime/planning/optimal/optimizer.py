"""The optimizer: the buckets that pad a traffic least within a budget."""

from collections.abc import Iterable
from itertools import product

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.admissible_shapes import admissible_shape_space
from gaudi_runtime.planning.optimal.axes import cells_of_axes, choose_axes
from gaudi_runtime.planning.optimal.cost import Cost, Price, typical_cost
from gaudi_runtime.planning.optimal.prior import PriorTrafficKind, prior_traffic
from gaudi_runtime.planning.optimal.search import Buckets, Search, SearchPhaseInput
from gaudi_runtime.planning.optimal.smoothing import smooth_to_similar_shapes, smooth_traffic
from gaudi_runtime.traffic.histogram import Traffic, Weights, histogram_weight

BOTH = (BucketPhase.PROMPT, BucketPhase.DECODE)

UNMET_SHARE = 0.1
"""The compute of traffic that was never observed, as a share of the compute of learned traffic."""

UNMET_MOST = 1.25
"""The most padded compute of such traffic, as a multiple of its padded compute with strategy Exponential."""

POWERS = (1.0, 0.5, 0.0)
"""The powers of the price that are tried if buckets have different prices. A small power favours large gains."""


class Optimizer:
    """The optimizer, which chooses the buckets for one traffic and one set of limits.

    `kv_blocks` is the number of KV blocks of the device. `cost` is the cost of a batch, by default typical_cost().
    """

    def __init__(self, traffic: Traffic, limits: Limits, kv_blocks: int, cost: Cost | None = None) -> None:
        self._limits, self._kv_blocks = limits, kv_blocks
        self._cost = cost or typical_cost(limits.block_size)
        self._spaces = {phase: admissible_shape_space(phase, limits, kv_blocks) for phase in BOTH}
        self._traffic: dict[BucketPhase, Weights] = {
            phase: {shape: weight for shape, weight in traffic.shapes_of(phase).items() if space.admits(shape)}
            for phase, space in self._spaces.items()
        }

    def choose(
        self, phases: tuple[BucketPhase, ...], price: Price, budget: float, setting_name: str
    ) -> dict[BucketPhase, Buckets]:
        """Choose the buckets of `phases` that pad least within `budget`, in the unit of `price`.

        For several phases, the sum of their padding is minimized. Raises PlanImpossible if the limits admit no traffic
        of a phase, or if the buckets that every plan needs exceed the budget. The second message begins with
        `setting_name`.
        """
        for phase in phases:
            self.check_traffic(phase)
        self.check_budget(phases, price, budget, setting_name)
        real_costs = {phase: self._total_cost(phase, self._traffic[phase]) for phase in phases}
        search = Search(
            [self._phase_input(phase) for phase in phases],
            lambda phase, bucket: self._cost(phase, bucket) / real_costs[phase],
            price,
        )
        optimize_within_budget(search, budget)
        return {phase: search.buckets(phase) for phase in phases}

    def _phase_input(self, phase: BucketPhase) -> SearchPhaseInput:
        space, traffic = self._spaces[phase], self._traffic[phase]
        axes = choose_axes(space, traffic)
        rounded, kept = cells_of_axes(space, traffic, axes)
        return SearchPhaseInput(
            space, axes, {**smooth_traffic(rounded, axes), **kept}, optimizer_needs_rows(phase, self._limits)
        )

    def check_budget(self, phases: tuple[BucketPhase, ...], price: Price, budget: float, setting_name: str) -> None:
        """Raise PlanImpossible as choose() does if the buckets that every plan needs exceed the budget."""
        min_price = sum(self.least_price(phase, price) for phase in phases)
        if min_price > budget:
            raise PlanImpossible(
                f"{budget:g} is too small, because buckets for all admissible {' and '.join(phases)} batches need "
                f"at least {min_price:g}",
                setting_name,
            )

    def check_traffic(self, phase: BucketPhase) -> None:
        """Raise PlanImpossible if the limits admit no traffic of a phase."""
        if not self._traffic[phase]:
            raise PlanImpossible(
                f"the traffic of strategy Optimal has no {phase} shape within the limits. "
                "Learn from the traffic of this model, or raise the limits"
            )

    def traffic_kinds(self, phase: BucketPhase) -> tuple[PriorTrafficKind, ...]:
        """Return the kinds of traffic of a phase: its admissible traffic, similar traffic, and unobserved traffic.

        Future traffic differs from past traffic, so buckets for the observed shapes alone are not sufficient. Raises
        PlanImpossible if there is no traffic.
        """
        self.check_traffic(phase)
        traffic = self._traffic[phase]
        unobserved_kinds = prior_traffic(phase, self._limits, self._kv_blocks, self._cost)
        scale = (
            UNMET_SHARE
            * self._total_cost(phase, traffic)
            / sum(self._total_cost(phase, kind.weights) for kind in unobserved_kinds)
        )
        return (
            PriorTrafficKind("traffic", traffic),
            PriorTrafficKind("similar traffic", smooth_to_similar_shapes(self._spaces[phase], traffic)),
            *(
                PriorTrafficKind(
                    kind.name, {shape: scale * weight for shape, weight in kind.weights.items()}, UNMET_MOST
                )
                for kind in unobserved_kinds
            ),
        )

    def share_beyond_limits(self, phase: BucketPhase, traffic: Traffic) -> float:
        """Return the share of the phase's traffic that exceeds the limits."""
        total = histogram_weight(traffic.shapes_of(phase))
        return 1 - histogram_weight(self._traffic[phase]) / total if total else 0.0

    def least_price(self, phase: BucketPhase, price: Price) -> float:
        """Return the total price of the buckets that every plan needs."""
        return sum(price(phase, bucket) for bucket in self._spaces[phase].covering_buckets())

    def _total_cost(self, phase: BucketPhase, traffic: Weights) -> float:
        return sum(weight * self._cost(phase, shape) for shape, weight in traffic.items())


def optimizer_needs_rows(phase: BucketPhase, limits: Limits) -> bool:
    """Return True if each batch size needs a bucket with all blocks.

    With contiguous attention, vllm-gaudi first looks up the batch size by the blocks of the sequences, and then the
    blocks by the highest block in use. Both lookups find the same bucket only with such a bucket.
    """
    return phase is BucketPhase.DECODE and limits.contiguous_paged_attention


def optimize_within_budget(search: Search, budget: float) -> None:
    """Make the cheapest plan found within a budget that has room for the buckets that every plan needs."""
    _, plan, start = min(_filled_plans(search, budget))
    search.start(plan, start)
    search.exchange(budget)
    search.grow(budget)


def _filled_plans(search: Search, budget: float) -> Iterable[tuple[float, list[int], list[int]]]:
    """Yield cost, plan and fixed buckets of each start within the budget, for each power of the price."""
    powers = POWERS if search.has_prices else POWERS[:1]
    for start, power in product(search.starts(), powers):
        search.start(start, start)
        if search.price <= budget:
            search.grow(budget, power)
            yield search.cost, search.plan, start
