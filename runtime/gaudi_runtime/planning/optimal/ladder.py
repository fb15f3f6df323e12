"""A ladder: the optimal choice of the values of one dimension to keep as rungs.

See docs/internals/planning.md, Rows and ladders.

Requests are padded up to the next rung. With rungs r1 < r2 < .. and W(v) requests of at most length v, the cost is the
sum of cost(r) * (W(r) - W(previous rung)). For a fixed previous rung, this is a line in cost(r). So each step of the
dynamic programme finds the lowest of many lines at a point, and the points only increase. This takes n * k steps for n
values and k rungs, instead of n * n * k. If the rungs have different prices, a ladder within a budget is a knapsack
problem.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase


class LowerEnvelope:
    """The lower envelope of lines, which finds the lowest line at a point in constant time on average.

    Lines are added with decreasing slopes, and queried at increasing points.
    """

    def __init__(self) -> None:
        self._lines: deque[tuple[float, float, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, slope: float, intercept: float, tag: int) -> None:
        """Add a line. Its slope must not exceed the slope of any earlier line."""
        if self._lines and self._lines[-1][0] == slope:
            if self._lines[-1][1] <= intercept:
                return
            self._lines.pop()
        while len(self._lines) > 1 and self._is_never_lowest(slope, intercept):
            self._lines.pop()
        self._lines.append((slope, intercept, tag))

    def find_lowest(self, point: float) -> tuple[float, int]:
        """Return the value and the tag of the lowest line at `point`. Points must not decrease between calls."""
        lines = self._lines
        while len(lines) > 1 and lines[1][0] * point + lines[1][1] <= lines[0][0] * point + lines[0][1]:
            lines.popleft()
        slope, intercept, tag = lines[0]
        return slope * point + intercept, tag

    def _is_never_lowest(self, slope: float, intercept: float) -> bool:
        """Return True if the last line is nowhere lower than both its predecessor and the new line."""
        (slope_a, intercept_a, _), (slope_b, intercept_b, _) = self._lines[-2], self._lines[-1]
        return (intercept - intercept_a) * (slope_a - slope_b) <= (intercept_b - intercept_a) * (slope_a - slope)


@dataclass(frozen=True, slots=True)
class Rung:
    """A candidate bucket of a ladder: the traffic weight between the previous rung and this rung, a cost and a price.

    `cost` is the compute of one batch in this bucket. `price` is the part of the budget that is needed to prepare the
    bucket.
    """

    bucket: Bucket
    weight: float
    cost: float
    price: float


class _Layers(NamedTuple):
    """The least cost and the previous rung, by number of rungs minus one and position of the last rung."""

    costs: list[list[float]]
    origins: list[list[int]]


class Ladder:
    """The rungs of a phase in ascending order. Costs must not decrease from one rung to the next.

    The last rung is always selected.
    """

    def __init__(self, phase: BucketPhase, rungs: Sequence[Rung]) -> None:
        self.phase = phase
        self.rungs = rungs
        self.weight_below = [0.0, *accumulate(rung.weight for rung in rungs)]
        """The weight of the traffic below each rung, and of all traffic at the end."""
        self._layers: dict[float, _Layers] = {}

    def cheapest_rungs(self, rate: float) -> tuple[int, ...]:
        """Return the positions of the rungs that minimize cost + rate * price, for any number of rungs."""
        envelope, origins = LowerEnvelope(), []
        envelope.add(0.0, 0.0, -1)
        for position, rung in enumerate(self.rungs):
            lowest, origin = envelope.find_lowest(rung.cost)
            end_cost = lowest + rung.cost * self.weight_below[position + 1] + rate * rung.price
            origins.append(origin)
            envelope.add(-self.weight_below[position + 1], end_cost, position)
        return _backtrack(lambda position, _: origins[position], len(self.rungs))

    def cheapest_by_count(self, count: int, rate: float = 0.0) -> tuple[int, ...]:
        """Return the positions of the `count` rungs that minimize cost + rate * price."""
        layers = self._layers.setdefault(rate, _Layers([], []))
        while len(layers.costs) < count:
            self._add_layer(layers, rate)
        return _backtrack(lambda position, selected: layers.origins[count - 1 - selected][position], len(self.rungs))

    def cost(self, positions: Sequence[int]) -> float:
        """Return the cost of all traffic with these rungs."""
        starts = (0, *(position + 1 for position in positions))
        return sum(
            self.rungs[position].cost * (self.weight_below[position + 1] - self.weight_below[start])
            for start, position in zip(starts, positions, strict=False)
        )

    def price(self, positions: Sequence[int]) -> float:
        """Return the price of these rungs."""
        return sum(self.rungs[position].price for position in positions)

    def _add_layer(self, layers: _Layers, rate: float) -> None:
        """Compute the least cost of the ladders that end at each position.

        These ladders have one rung more than the ladders of the previous layer.
        """
        layer_count = len(layers.costs)
        envelope, end_costs, origins = LowerEnvelope(), [], []
        if not layer_count:
            envelope.add(0.0, 0.0, -1)
        for position, rung in enumerate(self.rungs):
            if layer_count and position >= layer_count:
                envelope.add(-self.weight_below[position], layers.costs[-1][position - 1], position - 1)
            lowest, origin = envelope.find_lowest(rung.cost) if position >= layer_count else (float("inf"), -1)
            end_costs.append(lowest + rung.cost * self.weight_below[position + 1] + rate * rung.price)
            origins.append(origin)
        layers.costs.append(end_costs)
        layers.origins.append(origins)


def _backtrack(origin_of: Callable[[int, int], int], rung_count: int) -> tuple[int, ...]:
    """Return the positions from the last rung back to the first."""
    positions, position = [], rung_count - 1
    while position >= 0:
        positions.append(position)
        position = origin_of(position, len(positions) - 1)
    return tuple(reversed(positions))


# The budget is divided into this many units. Prices are rounded up to whole units, so the chosen rungs never exceed the
# budget.
UNITS = 256


def cheapest_within_budget(ladder: Ladder, budget: float) -> tuple[int, ...] | None:
    """Return the positions of the cheapest rungs within a budget, or None if the last rung exceeds the budget.

    As in `Ladder`, the lowest of many lines gives the cheapest ladder that ends at a rung. Here each number of units
    that the previous rungs use has separate lines.
    """
    rung_units = [ceil(rung.price * UNITS / budget) for rung in ladder.rungs]
    envelopes = [LowerEnvelope() for _ in range(UNITS + 1)]
    envelopes[0].add(0.0, 0.0, -1)
    origins: list[dict[int, int]] = []
    end_costs: dict[int, float] = {}
    for position, rung in enumerate(ladder.rungs):
        rung_origins: dict[int, int] = {}
        end_costs = {}
        # The loop goes from many units to few, so that it never adds the same rung twice.
        for used_units in range(UNITS, rung_units[position] - 1, -1):
            envelope = envelopes[used_units - rung_units[position]]
            if envelope:
                lowest, rung_origins[used_units] = envelope.find_lowest(rung.cost)
                end_costs[used_units] = lowest + rung.cost * ladder.weight_below[position + 1]
                envelopes[used_units].add(-ladder.weight_below[position + 1], end_costs[used_units], position)
        origins.append(rung_origins)
    return _backtrack_knapsack(origins, rung_units, min(end_costs, key=end_costs.__getitem__)) if end_costs else None


def _backtrack_knapsack(origins: list[dict[int, int]], rung_units: list[int], used_units: int) -> tuple[int, ...]:
    """Return the positions from the last rung back to the first, subtracting the units of each rung."""
    positions, position = [], len(origins) - 1
    while position >= 0:
        positions.append(position)
        position, used_units = origins[position][used_units], used_units - rung_units[position]
    return tuple(reversed(positions))
