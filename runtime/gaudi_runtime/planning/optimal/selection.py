"""Selections of rungs, and choices. A choice returns the cheapest selection for a price per graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.planning.optimal.ladder import Ladder


class KeptRungs(NamedTuple):
    """The selected rungs of one ladder, by their positions."""

    ladder: Ladder
    positions: tuple[int, ...]

    @property
    def cost(self) -> float:
        """The cost of the traffic of this ladder."""
        return self.ladder.cost(self.positions)

    @property
    def price(self) -> float:
        """The price of the kept rungs."""
        return self.ladder.price(self.positions)

    def buckets(self) -> list[Bucket]:
        """The buckets of the kept rungs."""
        return [self.ladder.rungs[position].bucket for position in self.positions]


@dataclass(frozen=True)
class Selection:
    """Several ladders with their selected rungs, and their total cost and price."""

    ladders: tuple[KeptRungs, ...] = ()
    cost: float = 0.0
    price: float = 0.0

    def __add__(self, other: "Selection") -> "Selection":
        return Selection(self.ladders + other.ladders, self.cost + other.cost, self.price + other.price)

    def total_cost(self, rate: float) -> float:
        """Return the cost plus the price, if each unit of price costs `rate`."""
        return self.cost + rate * self.price


Choice = Callable[[float], Selection]
"""Returns the cheapest selection for a rate: the one with the least cost + rate * price."""


def choice_of_rungs(ladder: Ladder) -> Choice:
    """Return the choice of the rungs of one ladder."""

    def cheapest(rate: float) -> Selection:
        kept_rungs = KeptRungs(ladder, ladder.cheapest_rungs(rate))
        return Selection((kept_rungs,), kept_rungs.cost, kept_rungs.price)

    return cheapest


def choice_of_rows(size: int, rows: Mapping[tuple[int, int], Choice]) -> Choice:
    """Return the choice of the rows into which `size` values are cut. `rows[i, j]` contains the values i to j - 1."""
    rows_by_end = sorted(rows.items(), key=lambda item: item[0][1])

    def cheapest(rate: float) -> Selection:
        # The loop finds a shortest path over the cuts. One pass in this order is sufficient, because every row ends
        # after its start.
        best_by_end: dict[int, Selection] = {0: Selection()}
        for (start, end), choice in rows_by_end:
            if start in best_by_end:
                candidate = best_by_end[start] + choice(rate)
                if end not in best_by_end or candidate.total_cost(rate) < best_by_end[end].total_cost(rate):
                    best_by_end[end] = candidate
        return best_by_end[size]

    return cheapest


def cheapest_of_choices(*choices: Choice) -> Choice:
    """Return a choice that returns the cheapest selection of several choices, or the first of equal selections."""
    return lambda rate: min((choice(rate) for choice in choices), key=lambda selection: selection.total_cost(rate))


def sum_of_choices(choices: Sequence[Choice]) -> Choice:
    """Return a choice that combines the selections of several choices with a common budget."""
    return lambda rate: sum((choice(rate) for choice in choices), Selection())
