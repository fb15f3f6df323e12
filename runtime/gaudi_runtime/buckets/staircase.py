"""What buckets hold, as a staircase per batch size: the form in which holes are found without a scan.

A bucket holds everything that is no larger in any dimension, so all buckets of at least some batch size hold a region
of (query, blocks) whose edge is a staircase, and what is outside begins at its inner corners.

Levels come one by one, because all of them hold a staircase each: as many steps as batch sizes times buckets.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from gaudi_runtime.buckets.bucket import Bucket

Stairs = tuple[tuple[int, int], ...]
"""The outermost (query, blocks) of a set of buckets: queries fall, blocks grow."""


@dataclass(frozen=True, slots=True)
class Level:
    """Batch sizes from `low` to `high`, and what the buckets of at least `high` sequences hold."""

    low: int
    high: int
    stairs: Stairs

    def holds(self, query: int, blocks: int) -> bool:
        """Whether some bucket is at least as large."""
        at = bisect_right(self.stairs, -query, key=lambda step: -step[0])
        return at > 0 and self.stairs[at - 1][1] >= blocks


def levels_of(buckets: Sequence[Bucket], most: int) -> Iterator[Level]:
    """From `most` sequences down to 1; the first level has no bucket where the plan ends below `most`."""
    rows = [(size, tuple(row)) for size, row in groupby(buckets, key=attrgetter("batch_size"))]
    lows = [1, *(size + 1 for size, _ in rows)]
    stairs: Stairs = ()
    if lows[-1] <= most:
        yield Level(lows[-1], most, stairs)
    for low, (size, row) in zip(lows[-2::-1], reversed(rows), strict=True):
        stairs = _outermost(row, stairs)
        if low <= most:
            yield Level(low, min(size, most), stairs)


def steps_up_to(most_steps: int, levels: Iterable[Level]) -> int:
    """Steps of all levels together, which is the work of whoever looks at them; counted no further than needed to
    know that they are more than `most_steps`.
    """
    steps = 0
    for level in levels:
        steps += len(level.stairs)
        if steps > most_steps:
            break
    return steps


def _outermost(row: Sequence[Bucket], larger: Stairs) -> Stairs:
    """The staircase of a row of buckets together with that of all larger batch sizes."""
    stairs: list[tuple[int, int]] = []
    for query, blocks in sorted([*larger, *((bucket.query_len, bucket.num_blocks) for bucket in row)], reverse=True):
        if not stairs or blocks > stairs[-1][1]:
            stairs.append((query, blocks))
    return tuple(stairs)


def inner_corners(levels: Iterable[Level]) -> Iterator[tuple[Level, Iterator[Bucket]]]:
    """Each level with the smallest shapes outside that begin there: such a shape is inside as soon as one of its
    dimensions is smaller by one.

    `levels` as levels_of() gives them.
    """
    above: Level | None = None
    for level in levels:
        if above is not None:
            yield above, _corners(above, level)
        above = level
    if above is not None:
        yield above, _corners(above, None)


def _corners(level: Level, below: Level | None) -> Iterator[Bucket]:
    """What is outside this level and, with one sequence less, inside the one below."""
    queries = (*(query + 1 for query, _ in level.stairs), 1)
    contexts = (0, *(blocks + 1 for _, blocks in level.stairs))
    for query, context in zip(queries, contexts, strict=True):
        if below is None or below.holds(query, context):
            yield Bucket(level.low, query, context)
