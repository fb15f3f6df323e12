"""The cheapest selection within a budget: a price per graph is raised until what is chosen fits."""

from collections.abc import Iterator
from dataclasses import dataclass

from gaudi_runtime.buckets.optimal.ladder import cheapest_within
from gaudi_runtime.buckets.optimal.rows import Choice, Kept, Selection

EPSILON = 1e-12


@dataclass(frozen=True)
class Fit:
    """A selection within the budget, and by how much one more graph would lower its cost (0: it would not)."""

    selection: Selection
    next_gain: float


def fit(choice: Choice, budget: float) -> Fit | None:
    """The cheapest selection whose price is at most `budget`; None when even the least takes more.

    Raising the rate finds the last selection within the budget and the first beyond it that are cheapest for some rate.
    The first is filled up graph by graph, the other thinned out until it fits, and where graphs differ in price what is
    left goes to one ladder first; the cheapest of all is taken. With one ladder and a budget of graphs that is exact.
    """
    within, beyond, rate = _around(choice, budget)
    if within is None:
        return None
    steps = _Steps(rate)
    thinned = steps.thinned(beyond, budget) if beyond else None
    starts = [within, *_slack_to_one(within, budget), *([thinned] if thinned else [])]
    found = min((steps.filled(each, budget) for each in starts), key=lambda selection: selection.cost)
    more = steps.best(found, float("inf"))
    return Fit(found, found.cost - more.cost if more else 0.0)


def _slack_to_one(selection: Selection, budget: float) -> Iterator[Selection]:
    """What is left of the budget given to a single ladder, where its rungs differ in price."""
    slack = budget - selection.price
    for at, kept in enumerate(selection.ladders):
        if len({rung.price for rung in kept.ladder.rungs}) > 1:
            rungs = cheapest_within(kept.ladder, kept.price + slack)
            if rungs:
                yield _replaced(selection, at, Kept(kept.ladder, rungs))


def _around(choice: Choice, budget: float) -> tuple[Selection | None, Selection | None, float]:
    """The last selection within the budget and the first beyond it, of those on the convex hull of (price, cost).

    With them the rate between both.
    """
    rate = 0.0
    high = choice.cheapest(rate)
    if high.price <= budget:
        return high, None, rate
    # At this rate a unit of price outweighs the whole cost.
    low = choice.cheapest(1e9 * max(high.cost, 1.0))
    if low.price > budget:
        return None, high, rate
    while low.cost > high.cost and high.price > low.price:
        rate = (low.cost - high.cost) / (high.price - low.price)
        middle = choice.cheapest(rate)
        if middle.total(rate) >= low.total(rate) * (1 - 1e-12):
            break
        low, high = (middle, high) if middle.price <= budget else (low, middle)
    return low, high, rate


@dataclass(frozen=True)
class _Steps:
    """Changes of a selection by one rung in one of its ladders, whose rungs are then chosen anew at a rate."""

    rate: float

    def filled(self, selection: Selection, budget: float) -> Selection:
        """With the steps that gain most for their price, as long as they fit."""
        while step := self.best(selection, budget):
            selection = step
        return selection

    def thinned(self, selection: Selection, budget: float) -> Selection | None:
        """Without what is missed least for its price; None when what must stay takes too much."""
        while selection.price > budget:
            before = selection
            cheaper = [each for each in self._changed(before, -1) if each.price < before.price]
            if not cheaper:
                return None
            selection = min(cheaper, key=lambda each: (each.cost - before.cost) / (before.price - each.price))
        return selection

    def best(self, selection: Selection, budget: float) -> Selection | None:
        """The rung more that lowers the cost most for its price."""
        longer = self._changed(selection, +1)
        better = [each for each in longer if each.price <= budget and each.cost < selection.cost - EPSILON]
        if not better:
            return None
        return max(better, key=lambda each: (selection.cost - each.cost) / max(each.price - selection.price, EPSILON))

    def _changed(self, selection: Selection, more: int) -> Iterator[Selection]:
        """The selection with so many rungs more in one ladder."""
        for at, kept in enumerate(selection.ladders):
            count = len(kept.rungs) + more
            if 1 <= count <= len(kept.ladder.rungs):
                yield _replaced(selection, at, Kept(kept.ladder, kept.ladder.exactly(count, self.rate)))


def _replaced(selection: Selection, at: int, kept: Kept) -> Selection:
    old = selection.ladders[at]
    ladders = (*selection.ladders[:at], kept, *selection.ladders[at + 1 :])
    return Selection(ladders, selection.cost - old.cost + kept.cost, selection.price - old.price + kept.price)
