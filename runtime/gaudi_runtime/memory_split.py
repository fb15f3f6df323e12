"""The memory split: the division of the free device memory after the profile run, in bytes.

See docs/internals/warmup.md, Memory split.
"""

from dataclasses import dataclass, replace
from math import ceil

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import PlanImpossible


@dataclass(frozen=True)
class DeviceMemorySplit:
    """The split of device memory in bytes: free = usable + margin, usable = graphs + kv_cache."""

    free: int
    usable: int
    graphs: int
    kv_cache: int
    margin: int


@dataclass(frozen=True)
class GraphPool:
    """The bytes for graphs at capture time: total = prompt + decode, which limit the first pass."""

    total_bytes: int
    prompt_bytes: int
    decode_bytes: int


def split_memory(free: int, utilization: float, graph_memory_share: float) -> DeviceMemorySplit:
    """Divide the `free` bytes of device memory after the profile run. Both shares are numbers from 0 to 1."""
    # As in the plugin, utilization is a share of the free memory. In vLLM on CUDA, it is a share of the whole card
    # (docs/internals/warmup.md).
    usable = int(free * utilization)
    graphs = int(usable * graph_memory_share)
    return DeviceMemorySplit(free=free, usable=usable, graphs=graphs, kv_cache=usable - graphs, margin=free - usable)


def count_kv_blocks_in_split(kv_cache_bytes: int, bytes_per_block: int) -> int:
    """Return the number of KV blocks that fit into `kv_cache_bytes`. Raises PlanImpossible if no block fits."""
    blocks = kv_cache_bytes // bytes_per_block
    if blocks < 1:
        raise PlanImpossible(
            f"only {kv_cache_bytes} bytes are left for the KV cache, but one block takes {bytes_per_block} bytes. "
            "Raise engine.deviceMemoryUtilizationPercent, lower warmup.graphMemoryPercent or use more cards"
        )
    return blocks


OWN_BLOCKS = 1
"""The KV block that vLLM reserves, its null block."""


def max_useful_blocks_in_split(limits: Limits) -> int | None:
    """Return the largest useful number of KV blocks. Sequences cannot fill more blocks.

    Return None with prefix caching, which can use any number of blocks.
    """
    if limits.prefix_caching:
        return None
    return limits.max_num_seqs * ceil(limits.max_model_len / limits.block_size) + OWN_BLOCKS


def limit_kv_cache(split: DeviceMemorySplit, bytes_per_block: int, limits: Limits) -> tuple[DeviceMemorySplit, int]:
    """Limit the cache to the useful KV blocks, and return the new split and the number of blocks.

    The rest of the memory goes to graphs. Raises PlanImpossible if no block fits.
    """
    blocks, useful_blocks = (
        count_kv_blocks_in_split(split.kv_cache, bytes_per_block),
        max_useful_blocks_in_split(limits),
    )
    if useful_blocks is None or blocks <= useful_blocks:
        return split, blocks
    cache_bytes = useful_blocks * bytes_per_block
    return replace(split, kv_cache=cache_bytes, graphs=split.usable - cache_bytes), useful_blocks


def graph_pool(free_bytes: int, margin_bytes: int, prompt_ratio: float) -> GraphPool:
    """Return the memory for graphs at capture time: the free memory minus the margin, divided by `prompt_ratio`."""
    total_bytes = max(0, free_bytes - margin_bytes)
    prompt_bytes = int(total_bytes * prompt_ratio)
    return GraphPool(total_bytes=total_bytes, prompt_bytes=prompt_bytes, decode_bytes=total_bytes - prompt_bytes)
