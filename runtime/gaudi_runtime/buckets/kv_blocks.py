"""KV blocks: the number on a device, and the number that a batch can reference within the limits of a server."""

import math
from dataclasses import dataclass

from gaudi_runtime.contract.bucketing import Limits

MOST_KV_BLOCKS = 2**31 - 1
"""The maximum number of KV blocks, because engines number blocks by signed 32-bit integers."""


def most_useful_kv_blocks(limits: Limits) -> int:
    """Return the KV blocks of full sequences in all places of a batch, which is more than any device needs."""
    return min(MOST_KV_BLOCKS, limits.max_num_seqs * math.ceil(limits.max_model_len / limits.block_size))


def most_context_kv_blocks(limits: Limits) -> int:
    """Return the KV blocks of the longest context that a prompt token can have."""
    return math.ceil((limits.max_model_len - 1) / limits.block_size)


def most_prompt_tokens_in_kv_blocks(limits: Limits) -> int:
    """Return the most tokens of a prompt, new tokens and context together, with context in whole KV blocks."""
    if not limits.has_context:
        return limits.longest_query
    # A later chunk of a split prompt may begin inside a block. This partly filled block counts as a whole block of
    # context.
    return limits.max_model_len + (limits.block_size - 1 if limits.splits_prompts else 0)


def most_context_kv_blocks_for_query(limits: Limits, query_len: int) -> int:
    """Return the most context, in KV blocks, that a prompt with `query_len` new tokens can have."""
    return (most_prompt_tokens_in_kv_blocks(limits) - query_len) // limits.block_size if limits.has_context else 0


@dataclass(frozen=True)
class DeviceBlocks:
    """The KV blocks that an engine has on its device: `count` blocks of `size` tokens.

    Decode batches may use smaller blocks of `decode_size` tokens. If `bounded` is True, such a batch references at most
    three times as many blocks as exist. Queries of prompts are multiples of `query_step` tokens.
    """

    count: int
    size: int
    decode_size: int
    bounded: bool = True
    query_step: int = 1

    @classmethod
    def from_limits(cls, count: int, limits: Limits) -> "DeviceBlocks":
        """Return device blocks of the configured block size, which is right for most models."""
        return cls(count, limits.block_size, limits.block_size)

    def adjust_limits(self, limits: Limits) -> Limits:
        """Return the limits with the actual block size of the engine."""
        return limits if limits.block_size == self.size else limits.model_copy(update={"block_size": self.size})


def clamp_blocks(limits: Limits, batch_size: int, num_blocks: int) -> int:
    """Limit the KV blocks of a decode bucket to what `batch_size` full sequences can reference."""
    # With contiguous attention, a batch reads all blocks up to the highest block in use, whatever its size.
    if limits.contiguous_paged_attention:
        return num_blocks
    return min(num_blocks, batch_size * math.ceil(limits.max_model_len / limits.block_size))


def most_decode_blocks(size: int, limits: Limits, kv_blocks: int) -> int:
    """Return the most KV blocks that a decode batch of `size` sequences can read, on a device with `kv_blocks`."""
    # With contiguous paged attention, a batch reads the cache from the first block to the highest block in use.
    if limits.contiguous_paged_attention:
        return kv_blocks
    max_blocks = size * math.ceil(limits.max_model_len / limits.block_size)
    # Each sequence counts its shared cached blocks separately, so a batch may read more blocks than exist. The plugin's
    # own planner allows up to 3 times as many.
    return min(max_blocks, SHARED_BLOCKS * kv_blocks if limits.prefix_caching else kv_blocks)


SHARED_BLOCKS = 3
"""The most times that a decode batch may read the blocks of the device if sequences share them."""
