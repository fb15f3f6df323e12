"""Several dimensions: rows of ladders (docs/traffic.md, How it chooses).

`find` looks for the smallest batch size first, then for the smallest query, then for the fewest blocks. So a plan whose
outer dimension is cut into rows, each row with a ladder of its own that ends where the row's requests end, sends every
request to the row and rung that its numbers name. Which rows, and which rungs in each, is chosen together: a
graph costs `rate`, and the cheapest rows are a shortest path over all ways to cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.optimal.ladder import Ladder


class Kept(NamedTuple):
    """A ladder and the positions of the rungs that are kept."""

    ladder: Ladder
    rungs: tuple[int, ...]

    @property
    def cost(self) -> float:
        """Cost of the ladder's traffic."""
        return self.ladder.cost(self.rungs)

    @property
    def price(self) -> float:
        """What the kept rungs take of the budget."""
        return self.ladder.price(self.rungs)

    def buckets(self) -> list[Bucket]:
        """The buckets of the kept rungs."""
        return [self.ladder.rungs[at].bucket for at in self.rungs]


@dataclass(frozen=True)
class Selection:
    """Ladders with the rungs that are kept, and what all of them cost and take of the budget."""

    ladders: tuple[Kept, ...] = ()
    cost: float = 0.0
    price: float = 0.0

    def __add__(self, other: "Selection") -> "Selection":
        return Selection(self.ladders + other.ladders, self.cost + other.cost, self.price + other.price)

    def total(self, rate: float) -> float:
        """Cost when every unit of price costs `rate`."""
        return self.cost + rate * self.price


class Choice(Protocol):
    """Something that knows its cheapest selection."""

    def cheapest(self, rate: float) -> Selection: ...


class Rungs:
    """One ladder as a choice."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder

    def cheapest(self, rate: float) -> Selection:
        """The rungs with the least cost + rate * price."""
        kept = Kept(self._ladder, self._ladder.cheapest(rate))
        return Selection((kept,), kept.cost, kept.price)


class Rows:
    """A dimension of `size` values cut into rows; `rows[i, j]` is the choice for the values i up to j - 1."""

    def __init__(self, size: int, rows: Mapping[tuple[int, int], Choice]) -> None:
        self._size = size
        self._rows = rows

    def cheapest(self, rate: float) -> Selection:
        """The cuts and rungs with the least cost + rate * price."""
        best: dict[int, Selection] = {0: Selection()}
        for (start, end), row in sorted(self._rows.items(), key=lambda item: item[0][1]):
            if start not in best:
                continue
            candidate = best[start] + row.cheapest(rate)
            if end not in best or candidate.total(rate) < best[end].total(rate):
                best[end] = candidate
        return best[self._size]


class Either:
    """The cheaper of several choices."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = choices

    def cheapest(self, rate: float) -> Selection:
        """The cheapest selection of all; the first among equals."""
        return min((choice.cheapest(rate) for choice in self._choices), key=lambda found: found.total(rate))


class With:
    """A choice beside a selection that is always there."""

    def __init__(self, choice: Choice, always: Selection) -> None:
        self._choice = choice
        self._always = always

    def cheapest(self, rate: float) -> Selection:
        """Both together."""
        return self._choice.cheapest(rate) + self._always


class Both:
    """Choices that share a budget."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = choices

    def cheapest(self, rate: float) -> Selection:
        """The cheapest selection of each."""
        return sum((choice.cheapest(rate) for choice in self._choices), Selection())
