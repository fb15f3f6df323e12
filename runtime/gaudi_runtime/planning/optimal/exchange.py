"""Plans with few graphs in several dimensions, which rows of ladders cannot express.

See docs/internals/optimal.md, Rows and ladders.

Each row must hold all of its requests, so every row pays for a bucket that only its largest requests need. With few
graphs it is better to pad these requests to one bucket that holds everything. Here a plan begins with the buckets that
every plan needs, and grows by the bucket that gains most. Then the least useful bucket is exchanged for the most useful
one as long as that lowers the cost. `improve_plan` decides whether to try this, and returns the cheapest plan found.
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
# The number of buckets whose removal is tried, least useful first.
OFFERED = 3

Buckets = tuple[Bucket, ...]


@dataclass(frozen=True)
class Market:
    """The buckets to exchange: the traffic on few `cells`, candidates, shapes that need a bucket, costs and prices.

    `needed` shapes and all cells have a bucket in every plan here. Prices add up to at most `budget`.
    """

    cells: Mapping[Bucket, float]
    candidates: Sequence[Bucket]
    needed: Sequence[Bucket]
    cost: Callable[[Bucket], float]
    price: Callable[[Bucket], float]
    budget: float

    def cost_of(self, plan: Buckets) -> float:
        """Return the cost of all cells with this plan."""
        finder = Finder(plan)
        return sum(weight * self.cost(_found(finder, plan, cell)) for cell, weight in self.cells.items())

    def slack(self, plan: Buckets) -> float:
        """Return the part of the budget that a plan leaves unused."""
        return self.budget - sum(map(self.price, plan))


def grow_plan(market: Market) -> Buckets:
    """Grow a plan to start exchanges from, each time by the candidate with the best gain for its price."""
    plan = tuple(sorted(market.needed))
    while step := _best_gain(market, plan, market.slack(plan)):
        plan = tuple(sorted((*plan, step[1])))
    return plan


def exchange_buckets(market: Market, plan: Buckets) -> Buckets:
    """Exchange buckets of the plan one by one while that lowers its cost."""
    for _ in range(MOST_EXCHANGES):
        better = next(_improvements(market, plan), None)
        if better is None:
            break
        plan = better
    return plan


def _improvements(market: Market, plan: Buckets) -> Iterator[Buckets]:
    """Yield plans with one bucket exchanged that cost less."""
    for loss, given in sorted(_losses(market, plan))[:OFFERED]:
        rest = tuple(bucket for bucket in plan if bucket != given)
        step = _best_gain(market, rest, market.slack(rest))
        # The gain must exceed rounding, or two exchanges that undo each other would repeat up to the limit.
        if step and step[0] > loss * (1 + 1e-9):
            yield tuple(sorted((*rest, step[1])))


def _best_gain(market: Market, plan: Buckets, slack: float) -> tuple[float, Bucket] | None:
    """Return the (gain, candidate) with the best gain for its price within `slack`; None if none gains."""
    gains = {each: gain for each, gain in _gains(market, plan).items() if gain > 0 and market.price(each) <= slack}
    best = max(gains, key=lambda each: (gains[each] / market.price(each), each), default=None)
    return None if best is None else (gains[best], best)


def _losses(market: Market, plan: Buckets) -> Iterator[tuple[float, Bucket]]:
    """Yield by how much the cost would rise without a bucket, for buckets that others can replace."""
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
    """Return by how much the cost would fall with each candidate, which takes all requests that find it first."""
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


# Up to this many graphs, plans of any form beat rows; above, the search would cost more than it gains.
FEW_GRAPHS = 24

FEW_VALUES = {0: (), 1: (1,), 2: (12, 24), 3: (4, 8, 10)}


def improve_plan(space: Space, traffic: Weights, cost: Worth, price: Worth, budget: float, plan: Buckets) -> Buckets:
    """Improve a plan by exchanges and by growing from the needed buckets; return the cheapest within `budget`."""
    # With one dimension that varies a single ladder is exact already.
    varying = sum(len(set(values)) > 1 for values in zip(*traffic, strict=True))
    if len(plan) > FEW_GRAPHS or varying < 2:
        return plan
    axes = choose_axes(space, traffic, FEW_VALUES)
    grid = {shape for shape in map(Bucket._make, product(*axes)) if space.admits(shape)}
    needed = space.corners()
    market = Market(_cells(space, traffic, axes), sorted({*grid, *needed, *plan}), needed, cost, price, budget)
    plans = (plan, exchange_buckets(market, plan), exchange_buckets(market, grow_plan(market)))
    # The search uses a coarse grid and the judgement a fine one, because a coarse grid hides the cost of rounding up.
    fine = replace(market, cells=_cells(space, traffic, choose_axes(space, traffic)))
    return min(plans, key=fine.cost_of)


def _cells(space: Space, traffic: Weights, axes: Axes) -> Weights:
    """Return smoothed traffic on the axes.

    Shapes that would become inadmissible by rounding up are not rounded.
    """
    inside = {shape: weight for shape, weight in traffic.items() if all(map(space.admits, to_axes({shape: 1}, axes)))}
    cells = {cell: weight for cell, weight in smooth(to_axes(inside, axes), axes).items() if space.admits(cell)}
    return {**cells, **{shape: weight for shape, weight in traffic.items() if shape not in inside}}
