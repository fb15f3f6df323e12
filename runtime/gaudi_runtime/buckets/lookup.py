"""The lookup of the bucket that a batch is padded to, or of a fallback shape if no bucket fits.

A bisection finds the first bucket that holds a batch. A plan is sorted by (batch size, query, blocks), so it has one
row for each batch size. Each row has one run of blocks for each query length. Most lookups end in their first row and
first run. A batch without a bucket is rounded up (docs/internals/bucketing.md, Misses).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, groupby
from operator import itemgetter


def round_up_dimension(value: int, base: int) -> int:
    """Round one dimension of a shape without a bucket up to a multiple of ceil(cube root of value) * base.

    0 and 1 are not rounded.
    """
    if value <= 1:
        return value
    # The cube root makes steps larger for larger values. This keeps the number of distinct shapes small.
    step = _ceil_cube_root(value) * base
    return -(-value // step) * step


def _ceil_cube_root(value: int) -> int:
    # The root is checked with integers, because a rounded float can be off by one. The shape would then differ from the
    # plugin's shape.
    root = round(math.cbrt(value))
    return root if root**3 >= value else root + 1


Triple = tuple[int, int, int]


class _Row:
    """The buckets of one batch size."""

    def __init__(self, first: int, buckets: Sequence[Triple]) -> None:
        self.queries: list[int] = []
        self.runs: list[list[int]] = []
        self.starts: list[int] = []
        for query, run in groupby(buckets, key=itemgetter(1)):
            self.queries.append(query)
            self.runs.append([bucket[2] for bucket in run])
            self.starts.append(first)
            first += len(self.runs[-1])
        self.most_from = _suffix_maxima([run[-1] for run in self.runs])

    def find_position(self, query: int, blocks: int) -> int | None:
        at = bisect_left(self.queries, query)
        if at == len(self.queries) or self.most_from[at] < blocks:
            return None
        while self.runs[at][-1] < blocks:
            at += 1
        return self.starts[at] + bisect_left(self.runs[at], blocks)


class Finder:
    """An index of sorted, distinct buckets that finds the first bucket that holds a batch."""

    def __init__(self, buckets: Sequence[Triple]) -> None:
        self._batches: list[int] = []
        self._rows: list[_Row] = []
        first = 0
        for batch, group in groupby(buckets, key=itemgetter(0)):
            row = list(group)
            self._batches.append(batch)
            self._rows.append(_Row(first, row))
            first += len(row)
        self._most_from = _suffix_maxima([row.most_from[0] for row in self._rows])

    def find_position(self, batch: int, query: int, blocks: int) -> int | None:
        """Return the position of the first bucket that is large enough in all three dimensions, or None."""
        for at in range(bisect_left(self._batches, batch), len(self._rows)):
            if self._most_from[at] < blocks:
                return None
            found = self._rows[at].find_position(query, blocks)
            if found is not None:
                return found
        return None


def _suffix_maxima(values: Sequence[int]) -> list[int]:
    """Return the largest value from each position to the end."""
    # A search stops early if the largest remaining value is too small.
    return list(accumulate(reversed(values), max))[::-1]
