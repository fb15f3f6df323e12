"""One dimension, exactly: which values of a dimension to keep as rungs (docs/traffic.md, How it chooses).

Requests are padded up to the next rung. With rungs r1 < r2 < .. and W(v) requests at most v long, the cost is the sum
of cost(r) * (W(r) - W(rung before r)): for a fixed rung before, a line in cost(r). So each step of the dynamic
programme asks for the lowest of many lines, and n values with k rungs take n * k steps instead of n * n * k.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.optimal.hull import LowestLine


@dataclass(frozen=True, slots=True)
class Rung:
    """A bucket that may be kept: the weight of the traffic between it and the rung before, its cost and its price.

    `cost` is what one batch in this bucket costs to compute, `price` what preparing the bucket takes of the budget.
    """

    bucket: Bucket
    weight: float
    cost: float
    price: float


class _Layers(NamedTuple):
    """By number of rungs less one and by position of the last rung: the least cost, and the rung before the last."""

    values: list[list[float]]
    origins: list[list[int]]


class Ladder:
    """Rungs of a phase in ascending order; costs must not fall from one to the next. The last one is always kept."""

    def __init__(self, phase: BucketPhase, rungs: Sequence[Rung]) -> None:
        self.phase = phase
        self.rungs = rungs
        self.below = [0.0, *accumulate(rung.weight for rung in rungs)]
        """Weight of the traffic below each rung, and of all at the end."""
        self._layers: dict[float, _Layers] = {}

    def cheapest(self, rate: float) -> tuple[int, ...]:
        """Positions of the rungs with the least cost + rate * price, any number of them."""
        lines, origins, value = LowestLine(), [], 0.0
        lines.add(0.0, 0.0, -1)
        for at, rung in enumerate(self.rungs):
            lowest, origin = lines.lowest(rung.cost)
            value = lowest + rung.cost * self.below[at + 1] + rate * rung.price
            origins.append(origin)
            lines.add(-self.below[at + 1], value, at)
        return _path(lambda at, _: origins[at], len(self.rungs))

    def exactly(self, count: int, rate: float = 0.0) -> tuple[int, ...]:
        """Positions of the `count` rungs with the least cost + rate * price, 1 <= count <= number of rungs."""
        layers = self._layers.setdefault(rate, _Layers([], []))
        while len(layers.values) < count:
            self._add_layer(layers, rate)
        return _path(lambda at, used: layers.origins[count - 1 - used][at], len(self.rungs))

    def cost(self, kept: Sequence[int]) -> float:
        """Cost of all traffic with these rungs."""
        befores = (0, *(at + 1 for at in kept))
        return sum(
            self.rungs[at].cost * (self.below[at + 1] - self.below[before])
            for before, at in zip(befores, kept, strict=False)
        )

    def price(self, kept: Sequence[int]) -> float:
        """What these rungs take of the budget."""
        return sum(self.rungs[at].price for at in kept)

    def _add_layer(self, layers: _Layers, rate: float) -> None:
        """The least cost up to every position that ends with it, with one rung more than the layer before."""
        count = len(layers.values)
        lines, values, origins = LowestLine(), [], []
        if not count:
            lines.add(0.0, 0.0, -1)
        for at, rung in enumerate(self.rungs):
            if count and at >= count:
                lines.add(-self.below[at], layers.values[-1][at - 1], at - 1)
            lowest, origin = lines.lowest(rung.cost) if at >= count else (float("inf"), -1)
            values.append(lowest + rung.cost * self.below[at + 1] + rate * rung.price)
            origins.append(origin)
        layers.values.append(values)
        layers.origins.append(origins)


def _path(origin_of: Callable[[int, int], int], count: int) -> tuple[int, ...]:
    """Back from the last rung to the first."""
    kept, at = [], count - 1
    while at >= 0:
        kept.append(at)
        at = origin_of(at, len(kept) - 1)
    return tuple(reversed(kept))
