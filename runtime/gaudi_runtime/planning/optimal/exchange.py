"""Few graphs in several dimensions: what rows of ladders cannot express (docs/internals/optimal.md, Rows and ladders).

Each row must hold all of its requests, so every row pays for a bucket that only its largest need. With few graphs it is
better to let those fall through to a bucket that holds everything. Here a plan grows from the buckets that every plan
needs, one at a time where it gains most; then the bucket that is missed least is given for the one that gains most,
as long as that pays. `bettered` decides whether that is tried, and takes the cheapest of what was found.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.lookup import Finder
from gaudi_runtime.planning.optimal.admissible_shapes import Space
from gaudi_runtime.planning.optimal.axes import Axes, choose_axes, to_axes
from gaudi_runtime.planning.optimal.row_search import Worth
from gaudi_runtime.planning.optimal.smoothing import smooth
from gaudi_runtime.traffic.histogram import Weights

MOST_EXCHANGES = 12
# Buckets that are tried as the one to give, least missed first.
OFFERED = 3

Buckets = tuple[Bucket, ...]


@dataclass(frozen=True)
class Market:
    """Traffic on few `cells`, the buckets that may be taken (sorted), shapes that need one, and what both are worth.

    `needed` shapes and all cells have a bucket in every plan here. Prices add up to at most `budget`.
    """

    cells: Mapping[Bucket, float]
    candidates: Sequence[Bucket]
    needed: Sequence[Bucket]
    cost: Callable[[Bucket], float]
    price: Callable[[Bucket], float]
    budget: float

    def cost_of(self, plan: Buckets) -> float:
        """Cost of all cells."""
        finder = Finder(plan)
        return sum(weight * self.cost(_found(finder, plan, cell)) for cell, weight in self.cells.items())

    def slack(self, plan: Buckets) -> float:
        """What a plan leaves of the budget."""
        return self.budget - sum(map(self.price, plan))


def grown(market: Market) -> Buckets:
    """A plan that grew from the needed buckets, each time by the candidate that gains most for its price."""
    plan = tuple(sorted(market.needed))
    while step := _best_gain(market, plan, market.slack(plan)):
        plan = tuple(sorted((*plan, step[1])))
    return plan


def exchanged(market: Market, plan: Buckets) -> Buckets:
    """The plan after exchanges of one bucket for another that lower its cost."""
    for _ in range(MOST_EXCHANGES):
        better = next(_improvements(market, plan), None)
        if better is None:
            break
        plan = better
    return plan


def _improvements(market: Market, plan: Buckets) -> Iterator[Buckets]:
    """Plans with one bucket exchanged that cost less."""
    for loss, given in sorted(_losses(market, plan))[:OFFERED]:
        rest = tuple(bucket for bucket in plan if bucket != given)
        step = _best_gain(market, rest, market.slack(rest))
        # More than rounding, or two exchanges that undo each other would use up all that are allowed.
        if step and step[0] > loss * (1 + 1e-9):
            yield tuple(sorted((*rest, step[1])))


def _best_gain(market: Market, plan: Buckets, slack: float) -> tuple[float, Bucket] | None:
    """(gain, candidate) that gains most for its price within `slack`; None when none gains."""
    gains = {each: gain for each, gain in _gains(market, plan).items() if gain > 0 and market.price(each) <= slack}
    best = max(gains, key=lambda each: (gains[each] / market.price(each), each), default=None)
    return None if best is None else (gains[best], best)


def _losses(market: Market, plan: Buckets) -> Iterator[tuple[float, Bucket]]:
    """What the cost would rise by without a bucket, of those that others can stand in for."""
    users: dict[Bucket, list[Bucket]] = defaultdict(list)
    finder = Finder(plan)
    for cell in market.cells:
        users[_found(finder, plan, cell)].append(cell)
    for at, bucket in enumerate(plan):
        rest = plan[:at] + plan[at + 1 :]
        finder = Finder(rest)
        if all(finder.first(*shape) is not None for shape in (*users[bucket], *market.needed)):
            paid = market.cost(bucket)
            yield (
                sum(market.cells[cell] * (market.cost(_found(finder, rest, cell)) - paid) for cell in users[bucket]),
                bucket,
            )


def _gains(market: Market, plan: Buckets) -> Mapping[Bucket, float]:
    """What the cost would fall by with a candidate more: it takes the requests that would find it first."""
    gains: dict[Bucket, float] = defaultdict(float)
    costs = [market.cost(candidate) for candidate in market.candidates]
    finder = Finder(plan)
    for cell, weight in market.cells.items():
        found = _found(finder, plan, cell)
        paid = market.cost(found)
        for at in range(bisect_left(market.candidates, cell), bisect_left(market.candidates, found)):
            taken = market.candidates[at]
            if taken.query_len >= cell.query_len and taken.num_blocks >= cell.num_blocks:
                gains[taken] += weight * (paid - costs[at])
    return gains


def _found(finder: Finder, plan: Buckets, shape: Bucket) -> Bucket:
    position = finder.first(*shape)
    if position is None:
        raise AssertionError(f"{tuple(shape)} has no bucket")
    return plan[position]


# Up to so many graphs rows lose to plans of any form; beyond, the search would cost more than it gains.
FEW_GRAPHS = 24

FEW_VALUES = {0: (), 1: (1,), 2: (12, 24), 3: (4, 8, 10)}


def bettered(space: Space, traffic: Weights, cost: Worth, price: Worth, budget: float, plan: Buckets) -> Buckets:
    """The cheapest of `plan`, what exchanges make of it, and what grows from the needed buckets, within `budget`."""
    # With one dimension that varies a single ladder is exact already.
    varying = sum(len(set(values)) > 1 for values in zip(*traffic, strict=True))
    if len(plan) > FEW_GRAPHS or varying < 2:
        return plan
    axes = choose_axes(space, traffic, FEW_VALUES)
    grid = {shape for shape in map(Bucket._make, product(*axes)) if space.admits(shape)}
    needed = space.corners()
    market = Market(_cells(space, traffic, axes), sorted({*grid, *needed, *plan}), needed, cost, price, budget)
    plans = (plan, exchanged(market, plan), exchanged(market, grown(market)))
    # Searched on a coarse grid, judged on a fine one: the coarse one hides what rounding up costs.
    fine = replace(market, cells=_cells(space, traffic, choose_axes(space, traffic)))
    return min(plans, key=fine.cost_of)


def _cells(space: Space, traffic: Weights, axes: Axes) -> Weights:
    """Smoothed traffic on the axes; where rounding up leaves what is admissible, shapes stay as they are."""
    inside = {shape: weight for shape, weight in traffic.items() if all(map(space.admits, to_axes({shape: 1}, axes)))}
    cells = {cell: weight for cell, weight in smooth(to_axes(inside, axes), axes).items() if space.admits(cell)}
    return {**cells, **{shape: weight for shape, weight in traffic.items() if shape not in inside}}
