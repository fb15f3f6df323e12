"""Plans with few graphs in several dimensions, which rows of ladders cannot express.

See docs/internals/planning.md, Rows and ladders.

Each row must hold all of its requests, so every row needs a bucket that only its largest requests use. With few graphs,
it is better to pad these requests to one bucket that holds everything. Here a plan starts with the buckets that every
plan needs, and then adds the bucket with the largest gain. After that, the least useful bucket is exchanged for the
most useful candidate while this lowers the cost. `improve_plan` decides whether to try this method, and returns the
cheapest plan found.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.lookup import Finder
from gaudi_runtime.planning.optimal.admissible_shapes import ShapeSpace
from gaudi_runtime.planning.optimal.axes import Axes, choose_axes, round_to_axes
from gaudi_runtime.planning.optimal.row_search import Worth
from gaudi_runtime.planning.optimal.smoothing import smooth
from gaudi_runtime.traffic.histogram import Weights

MOST_EXCHANGES = 12
# The search tries to remove only this many buckets, starting with the least useful bucket.
OFFERED = 3

Buckets = tuple[Bucket, ...]


@dataclass(frozen=True)
class ExchangeInput:
    """The input of an exchange: traffic on few `cells`, candidate buckets, needed shapes, costs and prices.

    In every plan here, all `needed_shapes` and all cells have a bucket. The sum of prices is at most `budget`.
    """

    cells: Mapping[Bucket, float]
    candidates: Sequence[Bucket]
    needed_shapes: Sequence[Bucket]
    cost: Callable[[Bucket], float]
    price: Callable[[Bucket], float]
    budget: float

    def cost_of(self, plan: Buckets) -> float:
        """Return the cost of all cells for this plan."""
        finder = Finder(plan)
        return sum(weight * self.cost(_find_bucket(finder, plan, cell)) for cell, weight in self.cells.items())

    def unused_budget(self, plan: Buckets) -> float:
        """Return the unused part of the budget for this plan."""
        return self.budget - sum(map(self.price, plan))


def grow_plan(exchange: ExchangeInput) -> Buckets:
    """Return a start plan for exchanges: repeatedly add the candidate with the best gain for its price."""
    plan = tuple(sorted(exchange.needed_shapes))
    while step := _best_gain(exchange, plan, exchange.unused_budget(plan)):
        plan = tuple(sorted((*plan, step[1])))
    return plan


def exchange_buckets(exchange: ExchangeInput, plan: Buckets) -> Buckets:
    """Exchange buckets of the plan one by one while each exchange lowers the cost."""
    for _ in range(MOST_EXCHANGES):
        better_plan = next(_improvements(exchange, plan), None)
        if better_plan is None:
            break
        plan = better_plan
    return plan


def _improvements(exchange: ExchangeInput, plan: Buckets) -> Iterator[Buckets]:
    """Yield cheaper plans in which one bucket is exchanged."""
    for loss, removed_bucket in sorted(_losses(exchange, plan))[:OFFERED]:
        remaining_plan = tuple(bucket for bucket in plan if bucket != removed_bucket)
        step = _best_gain(exchange, remaining_plan, exchange.unused_budget(remaining_plan))
        # The gain must exceed the rounding error. Otherwise two exchanges that undo each other would alternate up to
        # the limit.
        if step and step[0] > loss * (1 + 1e-9):
            yield tuple(sorted((*remaining_plan, step[1])))


def _best_gain(exchange: ExchangeInput, plan: Buckets, slack: float) -> tuple[float, Bucket] | None:
    """Return the gain and the candidate with the best gain for its price within `slack`; None if no candidate gains."""
    gains = {
        candidate: gain
        for candidate, gain in _gains(exchange, plan).items()
        if gain > 0 and exchange.price(candidate) <= slack
    }
    best = max(gains, key=lambda candidate: (gains[candidate] / exchange.price(candidate), candidate), default=None)
    return None if best is None else (gains[best], best)


def _losses(exchange: ExchangeInput, plan: Buckets) -> Iterator[tuple[float, Bucket]]:
    """Yield each bucket that others can replace, with the cost increase if the bucket is removed."""
    served_cells: dict[Bucket, list[Bucket]] = defaultdict(list)
    finder = Finder(plan)
    for cell in exchange.cells:
        served_cells[_find_bucket(finder, plan, cell)].append(cell)
    for position, bucket in enumerate(plan):
        remaining_plan = plan[:position] + plan[position + 1 :]
        finder = Finder(remaining_plan)
        if all(finder.find_position(*shape) is not None for shape in (*served_cells[bucket], *exchange.needed_shapes)):
            current_cost = exchange.cost(bucket)
            yield (
                sum(
                    exchange.cells[cell] * (exchange.cost(_find_bucket(finder, remaining_plan, cell)) - current_cost)
                    for cell in served_cells[bucket]
                ),
                bucket,
            )


def _gains(exchange: ExchangeInput, plan: Buckets) -> Mapping[Bucket, float]:
    """Return the cost reduction of each candidate, which would then serve all requests that find it first."""
    gains: dict[Bucket, float] = defaultdict(float)
    costs = [exchange.cost(candidate) for candidate in exchange.candidates]
    finder = Finder(plan)
    for cell, weight in exchange.cells.items():
        bucket = _find_bucket(finder, plan, cell)
        current_cost = exchange.cost(bucket)
        for position in range(bisect_left(exchange.candidates, cell), bisect_left(exchange.candidates, bucket)):
            replacement = exchange.candidates[position]
            if replacement.query_len >= cell.query_len and replacement.num_blocks >= cell.num_blocks:
                gains[replacement] += weight * (current_cost - costs[position])
    return gains


def _find_bucket(finder: Finder, plan: Buckets, shape: Bucket) -> Bucket:
    position = finder.find_position(*shape)
    if position is None:
        raise AssertionError(f"{tuple(shape)} has no bucket")
    return plan[position]


# Up to this number of graphs, plans of any form are cheaper than rows. For more graphs, the search costs more than it
# saves.
FEW_GRAPHS = 24

FEW_VALUES = {0: (), 1: (1,), 2: (12, 24), 3: (4, 8, 10)}


def improve_plan(
    space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth, budget: float, plan: Buckets
) -> Buckets:
    """Improve a plan by exchanges, and try a plan grown from the needed buckets.

    Returns the cheapest of the plans within `budget`.
    """
    # If only one dimension varies, a single ladder is already optimal.
    varying_count = sum(len(set(values)) > 1 for values in zip(*traffic, strict=True))
    if len(plan) > FEW_GRAPHS or varying_count < 2:
        return plan
    axes = choose_axes(space, traffic, FEW_VALUES)
    grid = {shape for shape in map(Bucket._make, product(*axes)) if space.admits(shape)}
    needed = space.covering_buckets()
    exchange = ExchangeInput(
        _smoothed_cells(space, traffic, axes), sorted({*grid, *needed, *plan}), needed, cost, price, budget
    )
    plans = (plan, exchange_buckets(exchange, plan), exchange_buckets(exchange, grow_plan(exchange)))
    # The search uses a coarse grid, but the final comparison uses a fine grid. A coarse grid hides the cost of rounding
    # up.
    fine_exchange = replace(exchange, cells=_smoothed_cells(space, traffic, choose_axes(space, traffic)))
    return min(plans, key=fine_exchange.cost_of)


def _smoothed_cells(space: ShapeSpace, traffic: Weights, axes: Axes) -> Weights:
    """Return smoothed traffic on the axes.

    A shape is not rounded up if the rounded shape is inadmissible.
    """
    admissible = {
        shape: weight for shape, weight in traffic.items() if all(map(space.admits, round_to_axes({shape: 1}, axes)))
    }
    cells = {
        cell: weight for cell, weight in smooth(round_to_axes(admissible, axes), axes).items() if space.admits(cell)
    }
    return {**cells, **{shape: weight for shape, weight in traffic.items() if shape not in admissible}}
