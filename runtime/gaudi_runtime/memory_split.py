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

    total: int
    prompt: int
    decode: int


def split_memory(free: int, utilization: float, graph_memory_share: float) -> DeviceMemorySplit:
    """Divide the `free` bytes of device memory after the profile run. Both shares are numbers from 0 to 1."""
    # As in the plugin, utilization is a share of the free memory. In vLLM on CUDA, it is a share of the whole card
    # (docs/internals/warmup.md).
    usable = int(free * utilization)
    graphs = int(usable * graph_memory_share)
    return DeviceMemorySplit(free=free, usable=usable, graphs=graphs, kv_cache=usable - graphs, margin=free - usable)


def count_kv_blocks(kv_cache: int, bytes_per_block: int) -> int:
    """Return the number of KV blocks that fit into `kv_cache` bytes. Raises PlanImpossible if no block fits."""
    blocks = kv_cache // bytes_per_block
    if blocks < 1:
        raise PlanImpossible(
            f"only {kv_cache} bytes are left for the KV cache, but one block takes {bytes_per_block} bytes. "
            "Raise engine.deviceMemoryUtilizationPercent, lower warmup.graphMemoryPercent or use more cards"
        )
    return blocks


OWN_BLOCKS = 1
"""The KV blocks that an engine reserves: vLLM's null block, the padding block of the torch engine."""


def max_useful_blocks(limits: Limits) -> int | None:
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
    blocks, useful = count_kv_blocks(split.kv_cache, bytes_per_block), max_useful_blocks(limits)
    if useful is None or blocks <= useful:
        return split, blocks
    cache = useful * bytes_per_block
    return replace(split, kv_cache=cache, graphs=split.usable - cache), useful


def graph_pool(free_now: int, margin: int, prompt_ratio: float) -> GraphPool:
    """Return the memory for graphs at capture time: the free memory minus the margin, divided by `prompt_ratio`."""
    total = max(0, free_now - margin)
    prompt = int(total * prompt_ratio)
    return GraphPool(total=total, prompt=prompt, decode=total - prompt)
