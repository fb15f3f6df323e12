"""How many KV blocks there are, and how many a batch can refer to within the limits of a server."""

import math
from dataclasses import dataclass

from gaudi_runtime.contract.bucketing import Limits


def most_context_blocks(limits: Limits) -> int:
    """Blocks of the longest context that a prompt token can have."""
    return math.ceil((limits.max_model_len - 1) / limits.block_size)


def context_room(limits: Limits) -> int:
    """Tokens that the new tokens of a prompt and its context, in whole blocks, share."""
    if not limits.has_context:
        return limits.longest_query
    # A later piece of a split prompt may begin within a block, which then counts for a single token.
    return limits.max_model_len + (limits.block_size - 1 if limits.splits_prompts else 0)


def most_context_of(limits: Limits, query: int) -> int:
    """The most context in blocks that a prompt with `query` new tokens can have."""
    return (context_room(limits) - query) // limits.block_size if limits.has_context else 0


@dataclass(frozen=True)
class DeviceBlocks:
    """The KV blocks of a device as its engine has them: `count` of `size` tokens.

    Decode batches may count smaller ones, of `decode_size` tokens. `bounded` says that such a batch refers to at most
    three times the blocks that exist. Queries of prompts are multiples of `query_step` tokens.
    """

    count: int
    size: int
    decode_size: int
    bounded: bool = True
    query_step: int = 1

    @classmethod
    def as_asked(cls, count: int, limits: Limits) -> "DeviceBlocks":
        """As the limits say, which is what an engine has of most models."""
        return cls(count, limits.block_size, limits.block_size)

    def limits(self, asked: Limits) -> Limits:
        """The limits with the blocks that there are."""
        return asked if asked.block_size == self.size else asked.model_copy(update={"block_size": self.size})


def clamp_blocks(limits: Limits, batch_size: int, num_blocks: int) -> int:
    """Blocks of a decode bucket, at most what `batch_size` full sequences can reference."""
    # With contiguous attention a batch reads up to the highest block in use, wherever it lies.
    if limits.contiguous_paged_attention:
        return num_blocks
    return min(num_blocks, batch_size * math.ceil(limits.max_model_len / limits.block_size))


def most_decode_blocks(size: int, limits: Limits, kv_blocks: int) -> int:
    """KV blocks that `size` sequences can make a decode batch read, on a device with `kv_blocks`."""
    # With contiguous paged attention a prefix of the cache that ends with the highest block in use, wherever it lies.
    if limits.contiguous_paged_attention:
        return kv_blocks
    most = size * math.ceil(limits.max_model_len / limits.block_size)
    # Sequences that share cached blocks reference them once each, so a batch may read more than there are: up to three
    # times as many by the rule of the plugin's own planner.
    return min(most, SHARED_BLOCKS * kv_blocks if limits.prefix_caching else kv_blocks)


SHARED_BLOCKS = 3
"""How often a decode batch may read the blocks of the device, where sequences share them."""
