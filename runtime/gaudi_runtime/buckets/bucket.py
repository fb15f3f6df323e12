"""Bucket: a padded shape of a server, and its weight."""

from typing import NamedTuple

from gaudi_runtime.contract.report import BucketPhase


class Bucket(NamedTuple):
    """One padded shape. `num_blocks` is the cached context per sequence (prompt), or the batch's blocks (decode)."""

    batch_size: int
    query_len: int
    num_blocks: int


def weight(phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
    """Return the weight of one bucket, from its dimensions; the bytes of its graph are proportional to it.

    The weight of a prompt bucket is its tokens with context, that of a decode bucket its sequences. `block_size` is in
    tokens per KV block.
    """
    if phase is BucketPhase.DECODE:
        return bucket.batch_size
    return bucket.batch_size * (bucket.query_len + bucket.num_blocks * block_size)
