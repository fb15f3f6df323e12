"""The smallest covering set of a plan: the fewest buckets of a phase that hold every shape that the plan holds.

Only shapes within the limits count (docs/internals/planning.md, Coverage). The largest shapes of a phase form a chain,
and each bucket holds a section of this chain. So the fewest sections are found in one pass over the chain.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import attrgetter

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import most_context_kv_blocks_for_query, most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


def covering_set(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> tuple[Bucket, ...]:
    """Return the smallest covering set of a phase, on a device with `kv_blocks` KV blocks.

    With drafts, the set covers only the steps without drafts. cover_first.py derives the buckets that verify drafts
    from this set.
    """
    if phase is BucketPhase.PROMPT:
        return tuple(_cover_prompts(plan.prompt, limits))
    decode = plan.seeds or plan.decode
    if limits.contiguous_paged_attention:
        return tuple(_cover_rows(decode, limits, kv_blocks))
    return tuple(_cover_decodes(decode, limits, kv_blocks))


def _cover_prompts(buckets: Sequence[Bucket], limits: Limits) -> Iterator[Bucket]:
    """Yield the fewest prompt buckets that hold all queries. A longer query allows less context."""
    rows: dict[int, list[Bucket]] = defaultdict(list)
    for bucket in buckets:
        rows[bucket.query_len].append(bucket)
    queries = sorted(rows)
    max_blocks = [max(bucket.num_blocks for bucket in rows[query]) for query in queries]
    available_blocks = _suffix_maxima(max_blocks)
    longest_query, query = min(limits.longest_query, max(queries, default=0)), 1
    while query <= longest_query:
        needed_blocks = min(
            most_context_kv_blocks_for_query(limits, query), available_blocks[bisect_left(queries, query)]
        )
        longest_first = zip(reversed(queries), reversed(max_blocks), strict=True)
        row = rows[next(query_len for query_len, blocks in longest_first if blocks >= needed_blocks)]
        # The smallest batch size is sufficient, because each prompt counts as a batch of one.
        bucket = min((b for b in row if b.num_blocks >= needed_blocks), key=lambda b: (b.batch_size, b.num_blocks))
        yield bucket
        query = bucket.query_len + 1


def _cover_decodes(buckets: Sequence[Bucket], limits: Limits, kv_blocks: int) -> Iterator[Bucket]:
    """Yield the fewest decode buckets that hold all batch sizes, without contiguous attention."""
    tops = _largest_by_size(buckets)
    sizes, max_blocks = [top.batch_size for top in tops], [top.num_blocks for top in tops]
    available_blocks = _suffix_maxima(max_blocks)
    largest_size = min(limits.max_num_seqs, kv_blocks, sizes[-1] if sizes else 0)
    needed_blocks = [
        min(most_decode_blocks(size, limits, kv_blocks), available_blocks[bisect_left(sizes, size)])
        for size in range(1, largest_size + 1)
    ]
    # Each sequence needs a block. So a batch of this size has no bucket in the plan if `blocks` is smaller than `size`.
    needed_blocks = [blocks if blocks >= size else 0 for size, blocks in enumerate(needed_blocks, start=1)]
    size = 1
    for peak in _peaks(needed_blocks):
        if peak < size:
            continue
        blocks = needed_blocks[peak - 1]
        top = next(top for top in reversed(tops) if top.num_blocks >= blocks)
        yield next(bucket for bucket in buckets if bucket.batch_size == top.batch_size and bucket.num_blocks >= blocks)
        size = top.batch_size + 1


def _peaks(needed_blocks: Sequence[int]) -> list[int]:
    """Return the batch sizes that need more blocks than every larger size, in ascending order."""
    peaks: list[int] = []
    max_blocks = 0
    for size in range(len(needed_blocks), 0, -1):
        if needed_blocks[size - 1] > max_blocks:
            max_blocks = needed_blocks[size - 1]
            peaks.append(size)
    return peaks[::-1]


def _cover_rows(buckets: Sequence[Bucket], limits: Limits, kv_blocks: int) -> Iterator[Bucket]:
    """Yield the largest buckets of the fewest batch sizes, for contiguous attention.

    The plugin looks up the smallest batch size that holds the sequences, and only then the blocks. So each batch size
    that the plugin may look up needs a bucket that holds the highest block (coverage.py).
    """
    tops = _largest_by_size(buckets)
    max_sequences, capacity, end, covered_blocks = min(limits.max_num_seqs, kv_blocks), 0, len(tops), -1
    row_indices: list[int] = []
    for index, top in enumerate(tops):
        # The plugin never looks up a batch size that holds no more sequences than a smaller batch size.
        if capacity < max_sequences and min(top.batch_size, top.num_blocks) > capacity:
            capacity = min(top.batch_size, top.num_blocks)
            row_indices.append(index)
    for index in reversed(row_indices):
        if min(tops[index].num_blocks, kv_blocks) > covered_blocks:
            end = max(range(index, end), key=lambda row: (min(tops[row].num_blocks, kv_blocks), -row))
            covered_blocks = min(tops[end].num_blocks, kv_blocks)
            yield tops[end]


def _largest_by_size(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Return the bucket with the most blocks for each decode batch size, in ascending order."""
    return [max(row, key=attrgetter("num_blocks")) for _, row in groupby(buckets, key=attrgetter("batch_size"))]


def _suffix_maxima(values: Sequence[int]) -> list[int]:
    """Return the largest value from each position to the end."""
    return list(accumulate(reversed(values), max))[::-1]
