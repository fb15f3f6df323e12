"""One ladder whose rungs differ in price, within a budget: a knapsack (docs/traffic.md, How it chooses)."""

from math import ceil

from gaudi_runtime.optimal.hull import LowestLine
from gaudi_runtime.optimal.ladder import Ladder

UNITS = 256
"""Parts of the budget that prices are counted in, rounded up: what is chosen always fits."""


def cheapest_within(ladder: Ladder, budget: float) -> tuple[int, ...] | None:
    """Positions of the rungs with the least cost whose price is at most `budget`; None when the last one takes more.

    As in a ladder, the cheapest way to end at a rung is the lowest of lines; here there are lines for every number of
    units that are used by the rungs before.
    """
    units = [ceil(rung.price * UNITS / budget) for rung in ladder.rungs]
    ways = [LowestLine() for _ in range(UNITS + 1)]
    ways[0].add(0.0, 0.0, -1)
    origins: list[dict[int, int]] = []
    ends: dict[int, float] = {}
    for at, rung in enumerate(ladder.rungs):
        reached: dict[int, int] = {}
        ends = {}
        for used in range(UNITS, units[at] - 1, -1):
            way = ways[used - units[at]]
            if way:
                lowest, reached[used] = way.lowest(rung.cost)
                ends[used] = lowest + rung.cost * ladder.below[at + 1]
                ways[used].add(-ladder.below[at + 1], ends[used], at)
        origins.append(reached)
    return _path(origins, units, min(ends, key=ends.__getitem__)) if ends else None


def _path(origins: list[dict[int, int]], units: list[int], used: int) -> tuple[int, ...]:
    """Back from the last rung to the first, giving each rung's units back."""
    kept, at = [], len(origins) - 1
    while at >= 0:
        kept.append(at)
        at, used = origins[at][used], used - units[at]
    return tuple(reversed(kept))
