"""The search: add the candidate bucket with the largest gain, then exchange buckets (docs/internals/optimal.md).

The search works on cells: the traffic, rounded up to few values of each dimension. A cell uses the first bucket of the
plan that holds it, as `find` does. So the gain of a candidate is the compute that is saved in the cells that would
then find it first. All gains are kept up to date while buckets are added and removed.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.admissible_shapes import ShapeSpace, holds_shape
from gaudi_runtime.planning.optimal.axes import Axes, choose_axis_values
from gaudi_runtime.planning.optimal.cost import Cost, Price

Buckets = tuple[Bucket, ...]

EPSILON = 1e-12
MOST_EXCHANGES = 24
OFFERED = 20
"""The buckets that an exchange tries to remove, starting with the least useful one."""

ROW_COUNTS = (4, 5, 3, 6, 8, 2, 1)
"""The numbers of batch sizes that are tried if each batch size needs a bucket with all blocks."""


@dataclass(frozen=True)
class SearchPhaseInput:
    """The input of a search for one phase: its shapes, the axes of its candidates, and the cells of its traffic.

    With `rows`, a batch size that has a bucket also needs one with all blocks.
    """

    space: ShapeSpace
    axes: Axes
    cells: Mapping[Bucket, float]
    rows: bool = False

    def candidates(self) -> set[Bucket]:
        """Return the buckets that may be useful, with those that every plan needs."""
        needed = self.space.covering_buckets()
        previous = [dict(zip(axis, [0, *(value + 1 for value in axis[:-1])], strict=True)) for axis in self.axes]
        found = {*needed}
        if self.rows:
            found |= {needed[-1]._replace(batch_size=size) for size in self.axes[0]}
        lows = [bounds.low for bounds in self.space.bounds()]
        for bucket in map(Bucket._make, product(*self.axes)):
            # A bucket is useful if the smallest shape that finds it first can occur.
            smallest = Bucket._make(
                max(below[value], low) for below, value, low in zip(previous, bucket, lows, strict=True)
            )
            if self.space.phase is BucketPhase.DECODE:
                smallest = smallest._replace(num_blocks=max(smallest.num_blocks, smallest.batch_size))
                if not self.rows and bucket.num_blocks < bucket.batch_size:
                    continue
            if self.space.admits(smallest) and any(holds_shape(other, bucket) for other in needed):
                found.add(bucket)
        return found


class Search:
    """The plan of one or several phases, which is improved step by step."""

    def __init__(self, phases: Sequence[SearchPhaseInput], cost: Cost, price: Price) -> None:
        self.candidates: list[tuple[BucketPhase, Bucket]] = []
        self.plan: list[int] = []
        self._cells: list[tuple[BucketPhase, Bucket]] = []
        self._costs: list[float] = []
        self._prices: list[float] = []
        self._holders: list[list[int]] = []
        # The bucket with all blocks in the row of each bucket. Only the decode phase has rows.
        self._tops: dict[int, int] = {}
        self._fixed: set[int] = set()
        self._row_starts: list[list[int]] = [[]]
        weights: list[float] = []
        for phase in phases:
            self._add_phase(phase, cost, price, weights)
        self._needed = sorted(self._fixed)
        self._weights = weights
        self._found: list[int] = []
        self._gains: list[float] = []

    def _add_phase(self, phase: SearchPhaseInput, cost: Cost, price: Price, weights: list[float]) -> None:
        name, first = phase.space.phase, len(self.candidates)
        buckets = sorted(phase.candidates())
        self.candidates += [(name, bucket) for bucket in buckets]
        self._costs += [cost(name, bucket) for bucket in buckets]
        self._prices += [price(name, bucket) for bucket in buckets]
        positions = {bucket: first + position for position, bucket in enumerate(buckets)}
        needed = phase.space.covering_buckets()
        self._fixed |= {positions[bucket] for bucket in needed}
        for cell, weight in phase.cells.items():
            holders = [position for position, bucket in enumerate(buckets, first) if holds_shape(bucket, cell)]
            if holders:
                self._cells.append((name, cell))
                self._holders.append(holders)
                weights.append(weight)
        if phase.rows:
            sizes = sorted({bucket.batch_size for bucket in buckets})
            tops = [positions[needed[-1]._replace(batch_size=size)] for size in sizes]
            self._tops = {positions[bucket]: tops[bisect_left(sizes, bucket.batch_size)] for bucket in buckets}
            sums = [0.0] * len(sizes)
            for cell, weight in phase.cells.items():
                sums[min(bisect_left(sizes, cell.batch_size), len(sizes) - 1)] += weight
            kept = [choose_axis_values(sizes, sums, count) for count in ROW_COUNTS if count <= len(sizes)]
            self._row_starts = [[tops[bisect_left(sizes, size)] for size in row] for row in kept]

    def starts(self) -> Iterator[list[int]]:
        """Yield the smallest plans: the needed buckets, and the tops of rows."""
        for tops in self._row_starts:
            yield sorted({*self._needed, *tops})

    def start(self, plan: Iterable[int], fixed: Iterable[int] = ()) -> None:
        """Begin with a plan whose `fixed` buckets are never removed."""
        self.plan = sorted(plan)
        self._fixed = {*self._needed, *fixed}
        self._gains = [0.0] * len(self.candidates)
        members = set(self.plan)
        self._found = [next(holder for holder in holders if holder in members) for holders in self._holders]
        for cell, weight in enumerate(self._weights):
            self._shift(cell, weight)

    def weigh(self, weights: Mapping[tuple[BucketPhase, Bucket], float]) -> None:
        """Change the weights of the cells."""
        for cell, name in enumerate(self._cells):
            new = weights.get(name, 0.0)
            if new != self._weights[cell]:
                self._shift(cell, new - self._weights[cell])
                self._weights[cell] = new

    def _shift(self, cell: int, weight: float) -> None:
        found, gains, costs = self._found[cell], self._gains, self._costs
        current = costs[found]
        for holder in self._holders[cell]:
            if holder >= found:
                break
            gains[holder] += weight * (current - costs[holder])

    @property
    def has_prices(self) -> bool:
        """Whether the prices of the candidates differ by more than a factor of two."""
        return max(self._prices) > 2 * min(self._prices)

    @property
    def least_price(self) -> float:
        """The price of the buckets that every plan needs."""
        return sum(self._prices[position] for position in self._needed)

    @property
    def cost(self) -> float:
        """The compute of all cells."""
        return sum(weight * self._costs[found] for weight, found in zip(self._weights, self._found, strict=True))

    @property
    def price(self) -> float:
        """The price of the plan."""
        return sum(self._prices[position] for position in self.plan)

    def buckets(self, phase: BucketPhase) -> Buckets:
        """Return the buckets of a phase, sorted."""
        return tuple(self.candidates[position][1] for position in self.plan if self.candidates[position][0] is phase)

    def best(self, slack: float, power: float = 1.0) -> int | None:
        """Return the candidate with the best gain for its price to a power, or None if no candidate gains."""
        members, best, best_rate = set(self.plan), None, 0.0
        for position, gain in enumerate(self._gains):
            if gain > EPSILON and self._prices[position] <= slack and position not in members:
                top = self._tops.get(position)
                rate = gain / self._prices[position] ** power
                if rate > best_rate and (top is None or top in members):
                    best, best_rate = position, rate
        return best

    def add(self, position: int) -> None:
        """Add a candidate. It then serves the cells that find it first."""
        insort(self.plan, position)
        for cell, holders in enumerate(self._holders):
            if self._found[cell] > position:
                index = bisect_left(holders, position)
                if index < len(holders) and holders[index] == position:
                    self._move(cell, position)

    def remove(self, position: int) -> None:
        """Remove a bucket. Its cells then use the next bucket that holds them."""
        self.plan.remove(position)
        for cell, found in enumerate(self._found):
            if found == position:
                self._move(cell, self._next(cell, position))

    def _next(self, cell: int, position: int) -> int:
        _, shape = self._cells[cell]
        for other in self.plan[bisect_left(self.plan, position + 1) :]:
            if holds_shape(self.candidates[other][1], shape):
                return other
        raise AssertionError(f"{tuple(shape)} has no bucket")

    def _move(self, cell: int, new: int) -> None:
        old, weight, gains, costs, holders = (
            self._found[cell],
            self._weights[cell],
            self._gains,
            self._costs,
            self._holders[cell],
        )
        self._found[cell] = new
        if not weight:
            return
        first, last = bisect_left(holders, min(old, new)), bisect_left(holders, max(old, new))
        change = weight * (costs[new] - costs[old])
        for holder in holders[:first]:
            gains[holder] += change
        sign, current = (-weight, costs[old]) if new < old else (weight, costs[new])
        for holder in holders[first:last]:
            gains[holder] += sign * (current - costs[holder])

    def losses(self) -> list[tuple[float, int]]:
        """Return each bucket that can be removed, with the cost increase, smallest first."""
        losses = dict.fromkeys((position for position in self.plan if position not in self._fixed), 0.0)
        for cell, found in enumerate(self._found):
            if found in losses:
                losses[found] += self._weights[cell] * (self._costs[self._next(cell, found)] - self._costs[found])
        return sorted((loss, position) for position, loss in losses.items())

    def grow(self, budget: float, power: float = 1.0) -> None:
        """Add the best candidates while they fit into the budget."""
        slack = budget - self.price
        while (position := self.best(slack, power)) is not None:
            self.add(position)
            slack -= self._prices[position]

    def exchange(self, budget: float) -> None:
        """Exchange buckets one by one while each exchange lowers the cost."""
        for _ in range(MOST_EXCHANGES):
            if not self._exchange_one(budget - self.price):
                break

    def _exchange_one(self, slack: float) -> bool:
        for loss, position in self.losses()[:OFFERED]:
            self.remove(position)
            other = self.best(slack + self._prices[position], 0.0)
            # The gain must exceed the rounding error. Otherwise exchanges that undo each other would alternate.
            if other is not None and other != position and self._gains[other] > loss * (1 + 1e-9) + EPSILON:
                self.add(other)
                return True
            self.add(position)
        return False
