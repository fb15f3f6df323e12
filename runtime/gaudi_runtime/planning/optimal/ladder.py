"""A ladder: the optimal choice of the values of one dimension to keep as rungs.

See docs/internals/optimal.md, Rows and ladders.

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

    values: list[list[float]]
    origins: list[list[int]]


class Ladder:
    """The rungs of a phase in ascending order. Costs must not decrease from one rung to the next.

    The last rung is always selected.
    """

    def __init__(self, phase: BucketPhase, rungs: Sequence[Rung]) -> None:
        self.phase = phase
        self.rungs = rungs
        self.below = [0.0, *accumulate(rung.weight for rung in rungs)]
        """The weight of the traffic below each rung, and of all traffic at the end."""
        self._layers: dict[float, _Layers] = {}

    def cheapest_rungs(self, rate: float) -> tuple[int, ...]:
        """Return the positions of the rungs that minimize cost + rate * price, for any number of rungs."""
        lines, origins = LowerEnvelope(), []
        lines.add(0.0, 0.0, -1)
        for at, rung in enumerate(self.rungs):
            lowest, origin = lines.find_lowest(rung.cost)
            value = lowest + rung.cost * self.below[at + 1] + rate * rung.price
            origins.append(origin)
            lines.add(-self.below[at + 1], value, at)
        return _backtrack(lambda at, _: origins[at], len(self.rungs))

    def cheapest_by_count(self, count: int, rate: float = 0.0) -> tuple[int, ...]:
        """Return the positions of the `count` rungs that minimize cost + rate * price."""
        layers = self._layers.setdefault(rate, _Layers([], []))
        while len(layers.values) < count:
            self._add_layer(layers, rate)
        return _backtrack(lambda at, used: layers.origins[count - 1 - used][at], len(self.rungs))

    def cost(self, kept: Sequence[int]) -> float:
        """Return the cost of all traffic with these rungs."""
        befores = (0, *(at + 1 for at in kept))
        return sum(
            self.rungs[at].cost * (self.below[at + 1] - self.below[before])
            for before, at in zip(befores, kept, strict=False)
        )

    def price(self, kept: Sequence[int]) -> float:
        """Return the price of these rungs."""
        return sum(self.rungs[at].price for at in kept)

    def _add_layer(self, layers: _Layers, rate: float) -> None:
        """Compute the least cost of the ladders that end at each position.

        These ladders have one rung more than the ladders of the previous layer.
        """
        count = len(layers.values)
        lines, values, origins = LowerEnvelope(), [], []
        if not count:
            lines.add(0.0, 0.0, -1)
        for at, rung in enumerate(self.rungs):
            if count and at >= count:
                lines.add(-self.below[at], layers.values[-1][at - 1], at - 1)
            lowest, origin = lines.find_lowest(rung.cost) if at >= count else (float("inf"), -1)
            values.append(lowest + rung.cost * self.below[at + 1] + rate * rung.price)
            origins.append(origin)
        layers.values.append(values)
        layers.origins.append(origins)


def _backtrack(origin_of: Callable[[int, int], int], count: int) -> tuple[int, ...]:
    """Return the positions from the last rung back to the first."""
    kept, at = [], count - 1
    while at >= 0:
        kept.append(at)
        at = origin_of(at, len(kept) - 1)
    return tuple(reversed(kept))


# The budget is divided into this many units. Prices are rounded up to whole units, so the chosen rungs never exceed the
# budget.
UNITS = 256


def cheapest_within_budget(ladder: Ladder, budget: float) -> tuple[int, ...] | None:
    """Return the positions of the cheapest rungs within a budget, or None if the last rung exceeds the budget.

    As in `Ladder`, the lowest of many lines gives the cheapest ladder that ends at a rung. Here each number of units
    that the previous rungs use has separate lines.
    """
    units = [ceil(rung.price * UNITS / budget) for rung in ladder.rungs]
    ways = [LowerEnvelope() for _ in range(UNITS + 1)]
    ways[0].add(0.0, 0.0, -1)
    origins: list[dict[int, int]] = []
    ends: dict[int, float] = {}
    for at, rung in enumerate(ladder.rungs):
        reached: dict[int, int] = {}
        ends = {}
        # The loop goes from many units to few, so that it never adds the same rung twice.
        for used in range(UNITS, units[at] - 1, -1):
            way = ways[used - units[at]]
            if way:
                lowest, reached[used] = way.find_lowest(rung.cost)
                ends[used] = lowest + rung.cost * ladder.below[at + 1]
                ways[used].add(-ladder.below[at + 1], ends[used], at)
        origins.append(reached)
    return _backtrack_knapsack(origins, units, min(ends, key=ends.__getitem__)) if ends else None


def _backtrack_knapsack(origins: list[dict[int, int]], units: list[int], used: int) -> tuple[int, ...]:
    """Return the positions from the last rung back to the first, subtracting the units of each rung."""
    kept, at = [], len(origins) - 1
    while at >= 0:
        kept.append(at)
        at, used = origins[at][used], used - units[at]
    return tuple(reversed(kept))
