"""The lookup of the bucket that a batch is padded to, or of a fallback shape if no bucket fits.

A bisection finds the first bucket that holds a batch. A plan is sorted by (batch size, query, blocks), so it has one
row for each batch size. Each row has one run of blocks for each query length. Most lookups end in their first row and
first run. A batch without a bucket is rounded up (docs/internals/planning.md, Misses).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, groupby
from operator import itemgetter


def round_up_for_lookup(value: int, base: int) -> int:
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

    def __init__(self, position: int, buckets: Sequence[Triple]) -> None:
        self.query_lens: list[int] = []
        self.block_runs: list[list[int]] = []
        self.starts: list[int] = []
        for query_len, run_buckets in groupby(buckets, key=itemgetter(1)):
            self.query_lens.append(query_len)
            self.block_runs.append([bucket[2] for bucket in run_buckets])
            self.starts.append(position)
            position += len(self.block_runs[-1])
        self.max_blocks_from = _suffix_maxima([run[-1] for run in self.block_runs])

    def find_position(self, query_len: int, num_blocks: int) -> int | None:
        index = bisect_left(self.query_lens, query_len)
        if index == len(self.query_lens) or self.max_blocks_from[index] < num_blocks:
            return None
        while self.block_runs[index][-1] < num_blocks:
            index += 1
        return self.starts[index] + bisect_left(self.block_runs[index], num_blocks)


class BucketLookup:
    """An index of sorted, distinct buckets that finds the first bucket that holds a batch."""

    def __init__(self, buckets: Sequence[Triple]) -> None:
        self._batch_sizes: list[int] = []
        self._rows: list[_Row] = []
        position = 0
        for batch_size, row_buckets in groupby(buckets, key=itemgetter(0)):
            row = list(row_buckets)
            self._batch_sizes.append(batch_size)
            self._rows.append(_Row(position, row))
            position += len(row)
        self._max_blocks_from = _suffix_maxima([row.max_blocks_from[0] for row in self._rows])

    def find_position(self, batch_size: int, query_len: int, num_blocks: int) -> int | None:
        """Return the position of the first bucket that is large enough in all three dimensions, or None."""
        for index in range(bisect_left(self._batch_sizes, batch_size), len(self._rows)):
            if self._max_blocks_from[index] < num_blocks:
                return None
            position = self._rows[index].find_position(query_len, num_blocks)
            if position is not None:
                return position
        return None


def _suffix_maxima(values: Sequence[int]) -> list[int]:
    """Return the largest value from each position to the end."""
    # A search stops early if the largest remaining value is too small.
    return list(accumulate(reversed(values), max))[::-1]
