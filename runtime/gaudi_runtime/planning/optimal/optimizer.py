"""The optimizer: the cheapest buckets within a budget, for one traffic (docs/internals/planning.md)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeSpace, PromptSpace, ShapeSpace
from gaudi_runtime.planning.optimal.axes import choose_axes
from gaudi_runtime.planning.optimal.cost import Cost, Price, price_in_graphs, typical_cost
from gaudi_runtime.planning.optimal.exchange import Buckets, improve_plan
from gaudi_runtime.planning.optimal.ladder import cheapest_within_budget
from gaudi_runtime.planning.optimal.prior import TrafficKind, prior_traffic
from gaudi_runtime.planning.optimal.row_search import Worth, check_least_rung_count, check_rung_count, search_rows
from gaudi_runtime.planning.optimal.selection import Choice, KeptRungs, Selection, sum_of_choices
from gaudi_runtime.planning.optimal.smoothing import similar_traffic
from gaudi_runtime.traffic.histogram import Traffic, Weights, total_weight

EPSILON = 1e-12
BOTH = (BucketPhase.PROMPT, BucketPhase.DECODE)


@dataclass(frozen=True)
class FittedSelection:
    """The optimizer's selection within the budget, and the gain of one more graph, or 0 if no graph can be added."""

    selection: Selection
    next_gain: float


def fit_to_budget(choice: Choice, budget: float) -> FittedSelection | None:
    """Return the optimizer's cheapest selection whose price is at most `budget`; None if no selection fits.

    For each rate there is a cheapest selection. The search over rates finds the last of these selections within the
    budget and the first one above the budget. The first kind is filled graph by graph; the second kind is thinned until
    it fits. If graphs have different prices, the rest of the budget is also spent on one ladder first. The result is
    the cheapest of all. For one ladder and a budget of graphs, the result is optimal.
    """
    low, high, rate = _bracket_budget(choice, budget)
    if low is None:
        return None
    steps = _RungSteps(rate)
    thinned = steps.thin_to_budget(high, budget) if high else None
    starts = [low, *_spend_slack_on_ladder(low, budget), *([thinned] if thinned else [])]
    best = min((steps.fill_budget(start, budget) for start in starts), key=lambda selection: selection.cost)
    longer = steps.add_best_rung(best, float("inf"))
    return FittedSelection(best, best.cost - longer.cost if longer else 0.0)


def _spend_slack_on_ladder(selection: Selection, budget: float) -> Iterator[Selection]:
    """Yield selections that spend the rest of the budget on one ladder whose rungs have different prices."""
    slack = budget - selection.price
    for index, kept_rungs in enumerate(selection.ladders):
        if len({rung.price for rung in kept_rungs.ladder.rungs}) > 1:
            positions = cheapest_within_budget(kept_rungs.ladder, kept_rungs.price + slack)
            if positions:
                yield _replace_ladder(selection, index, KeptRungs(kept_rungs.ladder, positions))


def _bracket_budget(choice: Choice, budget: float) -> tuple[Selection | None, Selection | None, float]:
    """Return the last selection within the budget, the first selection above the budget, and the rate between them.

    Both selections are on the convex hull of (price, cost).
    """
    rate = 0.0
    high = choice(rate)
    if high.price <= budget:
        return high, None, rate
    # At this rate, one unit of price outweighs the whole cost, so the search returns the lowest price.
    low = choice(1e9 * max(high.cost, 1.0))
    if low.price > budget:
        return None, high, rate
    while low.cost > high.cost and high.price > low.price:
        rate = (low.cost - high.cost) / (high.price - low.price)
        middle = choice(rate)
        if middle.total_cost(rate) >= low.total_cost(rate) * (1 - 1e-12):
            break
        low, high = (middle, high) if middle.price <= budget else (low, middle)
    return low, high, rate


@dataclass(frozen=True)
class _RungSteps:
    """Changes of a selection by one rung in one ladder. The rungs of this ladder are then chosen again for a rate."""

    rate: float

    def fill_budget(self, selection: Selection, budget: float) -> Selection:
        """Add the rungs with the best gain for their price while they fit into the budget."""
        while step := self.add_best_rung(selection, budget):
            selection = step
        return selection

    def thin_to_budget(self, selection: Selection, budget: float) -> Selection | None:
        """Remove the rungs with the least use for their price; return None if the needed rungs exceed the budget."""
        while selection.price > budget:
            previous = selection
            cheaper = [option for option in self._change_one_ladder(previous, -1) if option.price < previous.price]
            if not cheaper:
                return None
            selection = min(cheaper, key=lambda option: (option.cost - previous.cost) / (previous.price - option.price))
        return selection

    def add_best_rung(self, selection: Selection, budget: float) -> Selection | None:
        """Add the rung that reduces the cost most for its price. Return None if no rung can be added."""
        options = self._change_one_ladder(selection, +1)
        better = [option for option in options if option.price <= budget and option.cost < selection.cost - EPSILON]
        if not better:
            return None
        return max(
            better, key=lambda option: (selection.cost - option.cost) / max(option.price - selection.price, EPSILON)
        )

    def _change_one_ladder(self, selection: Selection, delta: int) -> Iterator[Selection]:
        """Yield selections in which one ladder has `delta` additional rungs."""
        for index, kept_rungs in enumerate(selection.ladders):
            rung_count = len(kept_rungs.positions) + delta
            if 1 <= rung_count <= len(kept_rungs.ladder.rungs):
                positions = kept_rungs.ladder.cheapest_by_count(rung_count, self.rate)
                yield _replace_ladder(selection, index, KeptRungs(kept_rungs.ladder, positions))


def _replace_ladder(selection: Selection, index: int, new: KeptRungs) -> Selection:
    old = selection.ladders[index]
    ladders = (*selection.ladders[:index], new, *selection.ladders[index + 1 :])
    return Selection(ladders, selection.cost - old.cost + new.cost, selection.price - old.price + new.price)


UNMET_SHARE = 0.1
"""The compute of traffic that was never observed, as a share of the compute of learned traffic."""

UNMET_MOST = 1.25
"""The most padded compute of such traffic, as a multiple of its padded compute with strategy Exponential."""


@dataclass(frozen=True)
class ChosenBuckets:
    """The optimizer's result: the sorted buckets by phase, and the padding that one more graph would save."""

    buckets: Mapping[BucketPhase, Buckets]
    next_gain: float


class Optimizer:
    """The optimizer, which chooses the buckets for one traffic and one set of limits.

    `kv_blocks` is the number of KV blocks of the device. `cost` is the cost of a batch, by default typical_cost().
    """

    def __init__(self, traffic: Traffic, limits: Limits, kv_blocks: int, cost: Cost | None = None) -> None:
        self._limits, self._kv_blocks = limits, kv_blocks
        self._cost = cost or typical_cost(limits.block_size)
        # With contiguous attention, vllm-gaudi first looks up the batch size by the blocks of the sequences, and then
        # the blocks by the highest block in use. Both lookups find the same bucket only if each batch size has a bucket
        # with all blocks.
        self._row_only_phases = {BucketPhase.DECODE} if limits.contiguous_paged_attention else set()
        self._spaces: dict[BucketPhase, ShapeSpace] = {
            BucketPhase.PROMPT: PromptSpace(limits, with_context=limits.has_context),
            BucketPhase.DECODE: DecodeSpace(limits, kv_blocks),
        }
        self._traffic: dict[BucketPhase, Weights] = {
            phase: {shape: weight for shape, weight in traffic.shapes_of(phase).items() if space.admits(shape)}
            for phase, space in self._spaces.items()
        }

    def choose(self, phases: tuple[BucketPhase, ...], price: Price, budget: float, setting_name: str) -> ChosenBuckets:
        """Choose the buckets of `phases` that pad least within `budget`, in the unit of `price`.

        For several phases, the sum of their padding is minimized. Raises PlanImpossible if the limits admit no traffic
        of a phase, or if the buckets that every plan needs exceed the budget. The second message begins with
        `setting_name`.
        """
        choice = sum_of_choices([self._choice_of_phase(phase, price) for phase in phases])
        self.check_budget(phases, price, budget, setting_name)
        fitted = _fit(choice, budget)
        buckets = _buckets_by_phase(fitted, phases)
        # Only a plan of a single phase is improved further, because the search does not return how it divides a shared
        # budget between phases.
        if len(phases) == 1 and phases[0] not in self._row_only_phases:
            buckets = {phase: self._improve_buckets(phase, price, budget, plan) for phase, plan in buckets.items()}
        return ChosenBuckets(buckets, fitted.next_gain)

    def check_budget(self, phases: tuple[BucketPhase, ...], price: Price, budget: float, setting_name: str) -> None:
        """Raise PlanImpossible as choose() does if the buckets that every plan needs exceed the budget."""
        min_price = sum(self.least_price(phase, price) for phase in phases)
        if min_price > budget:
            raise PlanImpossible(
                f"{budget:g} is too small, because buckets for all admissible {' and '.join(phases)} batches need "
                f"at least {min_price:g}",
                setting_name,
            )

    def check_search(self, phase: BucketPhase) -> None:
        """Raise PlanImpossible if the search for the buckets of a phase would take too long for any traffic."""
        check_least_rung_count(self._spaces[phase])

    def check_traffic(self, phase: BucketPhase) -> None:
        """Raise PlanImpossible if the limits admit no traffic of a phase."""
        if not self._traffic[phase]:
            raise PlanImpossible(
                f"the traffic of strategy Optimal has no {phase} shape within the limits. "
                "Learn from the traffic of this model, or raise the limits"
            )

    def traffic_kinds(self, phase: BucketPhase) -> tuple[TrafficKind, ...]:
        """Return the kinds of traffic of a phase: its admissible traffic, similar traffic, and unobserved traffic.

        Future traffic differs from past traffic, so buckets for the observed shapes alone are not sufficient. Raises
        PlanImpossible if there is no traffic.
        """
        traffic = self._admitted_traffic(phase)
        # Too many rungs are rejected before the traffic is spread over the cells of these axes.
        check_rung_count(self._spaces[phase], choose_axes(self._spaces[phase], traffic))
        unobserved_kinds = prior_traffic(phase, self._limits, self._kv_blocks, self._cost)
        scale = (
            UNMET_SHARE
            * self._total_cost(phase, traffic)
            / sum(self._total_cost(phase, kind.weights) for kind in unobserved_kinds)
        )
        return (
            TrafficKind("traffic", traffic),
            TrafficKind("similar traffic", similar_traffic(self._spaces[phase], traffic)),
            *(
                TrafficKind(kind.name, {shape: scale * weight for shape, weight in kind.weights.items()}, UNMET_MOST)
                for kind in unobserved_kinds
            ),
        )

    def share_beyond_limits(self, phase: BucketPhase, traffic: Traffic) -> float:
        """Return the share of the phase's traffic that exceeds the limits."""
        total = total_weight(traffic.shapes_of(phase))
        return 1 - total_weight(self._traffic[phase]) / total if total else 0.0

    def minimize_buckets(
        self, phase: BucketPhase, is_enough: Callable[[Buckets], bool], max_buckets: int
    ) -> ChosenBuckets:
        """Return the fewest buckets of a phase that `is_enough` accepts, or `max_buckets` if it accepts no number.

        Every admissible shape has a bucket, so the result may have more than `max_buckets` buckets.
        """
        # Choices are cached, because the search tries the same rates for budgets that are close to each other.
        choice = cache(self._choice_of_phase(phase, price_in_graphs))
        min_graphs = round(self.least_price(phase, price_in_graphs))
        max_graphs = max(min_graphs, max_buckets)
        fitted = _fit(choice, max_graphs)
        while min_graphs < max_graphs:
            graphs = (min_graphs + max_graphs) // 2
            fewer = _fit(choice, graphs)
            if is_enough(_buckets_by_phase(fewer, (phase,))[phase]):
                max_graphs, fitted = graphs, fewer
            else:
                min_graphs = graphs + 1
        buckets = _buckets_by_phase(fitted, (phase,))[phase]
        if phase not in self._row_only_phases:
            buckets = self._improve_buckets(phase, price_in_graphs, len(buckets), buckets)
        return ChosenBuckets({phase: buckets}, fitted.next_gain)

    def least_price(self, phase: BucketPhase, price: Price) -> float:
        """Return the total price of the buckets that every plan needs."""
        return sum(price(phase, bucket) for bucket in self._spaces[phase].covering_buckets())

    def _admitted_traffic(self, phase: BucketPhase) -> Weights:
        self.check_traffic(phase)
        return self._traffic[phase]

    def _choice_of_phase(self, phase: BucketPhase, price: Price) -> Choice:
        return search_rows(
            self._spaces[phase], self._admitted_traffic(phase), self._relative_cost(phase), partial(price, phase)
        )

    def _improve_buckets(self, phase: BucketPhase, price: Price, budget: float, plan: Buckets) -> Buckets:
        space, traffic = self._spaces[phase], self._traffic[phase]
        return improve_plan(space, traffic, self._relative_cost(phase), partial(price, phase), budget, plan)

    def _total_cost(self, phase: BucketPhase, traffic: Weights) -> float:
        return sum(weight * self._cost(phase, shape) for shape, weight in traffic.items())

    def _relative_cost(self, phase: BucketPhase) -> Worth:
        """Return the cost of a batch as a share of the real cost of its phase, so that padding can be added."""
        real_cost = self._total_cost(phase, self._traffic[phase])
        return lambda bucket: self._cost(phase, bucket) / real_cost


def _fit(choice: Choice, budget: float) -> FittedSelection:
    """Return the selection within a budget that has room for the buckets that every plan needs."""
    fitted = fit_to_budget(choice, budget)
    if fitted is None:
        raise AssertionError(f"the budget {budget:g} is too small")
    return fitted


def _buckets_by_phase(fitted: FittedSelection, phases: tuple[BucketPhase, ...]) -> dict[BucketPhase, Buckets]:
    buckets: dict[BucketPhase, set[Bucket]] = {phase: set() for phase in phases}
    for kept_rungs in fitted.selection.ladders:
        buckets[kept_rungs.ladder.phase].update(kept_rungs.buckets())
    return {phase: tuple(sorted(phase_buckets)) for phase, phase_buckets in buckets.items()}
