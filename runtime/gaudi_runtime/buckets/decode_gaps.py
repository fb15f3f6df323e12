"""Decode batches that no bucket holds, batch size by batch size (docs/bucketing.md, Coverage)."""

from collections.abc import Sequence
from math import ceil

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.gaps import Firsts, Gap, PhaseCoverage
from gaudi_runtime.buckets.staircase import levels_of
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


def decode_coverage(buckets: Sequence[Bucket], limits: Limits, kv_blocks: int) -> PhaseCoverage:
    """Admissible (batch size, 1, blocks) and those that no bucket holds; `buckets` are in plan order.

    Every sequence has at least one block of its own.
    """
    shapes = missing = 0
    firsts = Firsts()
    # All levels at once: a row of queries of one token has a staircase of one step.
    for level in reversed(list(levels_of(buckets, limits.max_num_seqs))):
        held = level.stairs[0][1] if level.stairs else 0
        for size in range(level.low, min(level.high, kv_blocks) + 1):
            most = _most_decode_blocks(size, limits, kv_blocks)
            shapes += most - size + 1
            missing += max(0, most - max(held, size - 1))
            if most > held and (firsts.least_blocks is None or max(held + 1, size) < firsts.least_blocks):
                firsts.add(Bucket(size, 1, max(held + 1, size)))
    largest = min(limits.max_num_seqs, kv_blocks)
    last = Bucket(largest, 1, _most_decode_blocks(largest, limits, kv_blocks))
    gaps = tuple(Gap(first, last) for first in firsts.smallest)
    return PhaseCoverage(BucketPhase.DECODE, shapes, missing, firsts.count, gaps)


def _most_decode_blocks(size: int, limits: Limits, kv_blocks: int) -> int:
    """KV blocks that `size` sequences can make a decode batch read.

    With contiguous paged attention a prefix of the cache that ends with the highest block in use; otherwise each
    sequence's own blocks, where those that prefix caching shares count for every sequence.
    """
    if limits.contiguous_paged_attention:
        return kv_blocks
    most = size * ceil(limits.max_model_len / limits.block_size)
    return most if limits.prefix_caching else min(most, kv_blocks)
