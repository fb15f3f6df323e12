"""Decode buckets on a manual grid of batch sizes and contexts per sequence, without a search.

The blocks of a decode step grow with the number of sequences. A grid over the context per sequence therefore has
buckets only for possible shapes. The three grids were proposed before strategy Optimal had a prior.
"""

from collections.abc import Sequence

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits

GRIDS: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "9 x 8": ((1, 2, 4, 8, 12, 22, 40, 72, 128), (4, 8, 12, 16, 24, 32, 48, 64)),
    "12 x 5": ((1, 2, 3, 4, 6, 8, 12, 16, 24, 40, 72, 128), (6, 12, 24, 40, 64)),
    "8 x 5": ((1, 2, 4, 8, 16, 32, 64, 128), (4, 8, 16, 32, 64)),
}
"""(batch sizes, blocks per sequence) of each grid, for at most 128 sequences of 64 blocks each."""


def decode_grid(name: str, limits: Limits, kv_blocks: int) -> tuple[Bucket, ...]:
    """Return the buckets of a grid. The last bucket of each batch size has all blocks that such a batch can need."""
    sizes, contexts = GRIDS[name]
    tops = {size: most_decode_blocks(size, limits, kv_blocks) for size in sizes}
    inner = {Bucket(size, 1, min(size * context, tops[size])) for size in sizes for context in contexts}
    return tuple(sorted(inner | {Bucket(size, 1, top) for size, top in tops.items()}))
