"""Bucket: a padded shape of a server, and its weight."""

from typing import NamedTuple

from gaudi_runtime.contract.report import BucketPhase


class Bucket(NamedTuple):
    """One padded shape. `num_blocks` is the context blocks of each prompt, or the blocks of the whole decode batch."""

    batch_size: int
    query_len: int
    num_blocks: int


def bucket_weight(phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
    """Return the weight of one bucket, from its dimensions. The bytes of its graph are proportional to the weight.

    The weight of a prompt bucket is its number of tokens including context. The weight of a decode bucket is its number
    of sequences. `block_size` is in tokens per KV block.
    """
    if phase is BucketPhase.DECODE:
        return bucket.batch_size
    return bucket.batch_size * (bucket.query_len + bucket.num_blocks * block_size)
