"""First bucket that holds a batch: bisection over a sorted plan instead of a scan.

A plan is sorted by (batch size, query, blocks), so it falls into one row per batch size, and a row into one run of
blocks per query length. Most lookups end in the first row and run they touch.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, groupby
from operator import itemgetter

Triple = tuple[int, int, int]


class _Row:
    """All buckets of one batch size."""

    def __init__(self, first: int, buckets: Sequence[Triple]) -> None:
        self.queries: list[int] = []
        self.runs: list[list[int]] = []
        self.starts: list[int] = []
        for query, run in groupby(buckets, key=itemgetter(1)):
            self.queries.append(query)
            self.runs.append([bucket[2] for bucket in run])
            self.starts.append(first)
            first += len(self.runs[-1])
        self.most_from = _largest_from([run[-1] for run in self.runs])

    def first(self, query: int, blocks: int) -> int | None:
        at = bisect_left(self.queries, query)
        if at == len(self.queries) or self.most_from[at] < blocks:
            return None
        while self.runs[at][-1] < blocks:
            at += 1
        return self.starts[at] + bisect_left(self.runs[at], blocks)


class Finder:
    """Answers lookups for one sorted list of distinct (batch size, query, blocks)."""

    def __init__(self, buckets: Sequence[Triple]) -> None:
        self._batches: list[int] = []
        self._rows: list[_Row] = []
        first = 0
        for batch, group in groupby(buckets, key=itemgetter(0)):
            row = list(group)
            self._batches.append(batch)
            self._rows.append(_Row(first, row))
            first += len(row)
        self._most_from = _largest_from([row.most_from[0] for row in self._rows])

    def first(self, batch: int, query: int, blocks: int) -> int | None:
        """Position of the first bucket that is >= in all three dimensions, None when there is none."""
        for at in range(bisect_left(self._batches, batch), len(self._rows)):
            if self._most_from[at] < blocks:
                return None
            found = self._rows[at].first(query, blocks)
            if found is not None:
                return found
        return None


def _largest_from(values: Sequence[int]) -> list[int]:
    """At every position the largest value from there to the end, so that a search knows when to give up."""
    return list(accumulate(reversed(values), max))[::-1]
