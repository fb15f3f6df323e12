"""The largest useful KV cache of a rank, calculated from the KV cache specs that vLLM has for a model's layers."""

from collections.abc import Mapping
from typing import Any

from gaudi_runtime.memory_split import OWN_BLOCKS

FULL_ATTENTION = frozenset({"FullAttentionSpec", "MLAAttentionSpec"})
"""vLLM's names for the specs of layers that keep the whole sequence."""


def useful_bytes(vllm_config: Any, layers: Mapping[str, Any]) -> int | None:
    """Return the largest useful KV cache of a rank: the bytes that sequences within vLLM's limits can fill.

    `layers` maps the names of a rank's layers to their KV cache specs. vLLM divides the bytes that a worker reports as
    available by the bytes that one block takes in all of these layers. Return None if more may be of use: with prefix
    caching, with a watermark of free blocks, and for a model whose layers are not all full attention of one size.
    """
    # Cached prefixes fill any number of blocks. The watermark is a share of all blocks that new requests must not use.
    if vllm_config.cache_config.enable_prefix_caching or getattr(vllm_config.scheduler_config, "watermark", 0):
        return None
    kinds = {(type(spec).__name__, int(spec.block_size), int(spec.page_size_bytes)) for spec in layers.values()}
    # vLLM pads the blocks of layers that differ, and the plugin gives Mamba layers tensors of their own.
    if len(kinds) != 1:
        return None
    ((name, block_size, page),) = kinds
    if name not in FULL_ATTENTION:
        return None
    # Speculative tokens need no more, because vLLM allocates no slot beyond max_model_len.
    sequence = -(-int(vllm_config.model_config.max_model_len) // block_size)
    blocks = int(vllm_config.scheduler_config.max_num_seqs) * sequence + OWN_BLOCKS
    return blocks * page * len(layers)
