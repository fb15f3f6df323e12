"""What buckets hold, as a staircase per batch size: the form in which holes are found without a scan.

A bucket holds everything that is no larger in any dimension, so all buckets of at least some batch size hold a region
of (query, blocks) whose edge is a staircase, and what is outside begins at its inner corners.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from gaudi_runtime.buckets.bucket import Bucket

Stairs = tuple[tuple[int, int], ...]
"""The outermost (query, blocks) of a set of buckets: queries fall, blocks grow."""


@dataclass(frozen=True)
class Level:
    """Batch sizes from `low` to `high`, and what the buckets of at least `high` sequences hold."""

    low: int
    high: int
    stairs: Stairs

    def holds(self, query: int, blocks: int) -> bool:
        """Whether some bucket is at least as large."""
        at = bisect_right(self.stairs, -query, key=lambda step: -step[0])
        return at > 0 and self.stairs[at - 1][1] >= blocks


def levels_of(buckets: Sequence[Bucket], most: int) -> list[Level]:
    """From 1 to `most` sequences, ascending; the last level has no bucket where the plan ends below `most`."""
    rows = [(size, tuple(row)) for size, row in groupby(buckets, key=attrgetter("batch_size"))]
    lows = [1, *(size + 1 for size, _ in rows)]
    found = [Level(lows[-1], most, ())]
    for low, (size, row) in zip(lows[-2::-1], reversed(rows), strict=True):
        found.append(Level(low, min(size, most), _outermost(row, found[-1].stairs)))
    return [level for level in reversed(found) if level.low <= level.high]


def _outermost(row: Sequence[Bucket], larger: Stairs) -> Stairs:
    """The staircase of a row of buckets together with that of all larger batch sizes."""
    stairs: list[tuple[int, int]] = []
    for query, blocks in sorted([*larger, *((bucket.query_len, bucket.num_blocks) for bucket in row)], reverse=True):
        if not stairs or blocks > stairs[-1][1]:
            stairs.append((query, blocks))
    return tuple(stairs)


def inner_corners(levels: Sequence[Level]) -> Iterator[Bucket]:
    """The smallest shapes outside: each is inside as soon as one of its dimensions is smaller by one."""
    below = None
    for level in levels:
        queries = (*(query + 1 for query, _ in level.stairs), 1)
        contexts = (0, *(blocks + 1 for _, blocks in level.stairs))
        for query, context in zip(queries, contexts, strict=True):
            if below is None or below.holds(query, context):
                yield Bucket(level.low, query, context)
        below = level
