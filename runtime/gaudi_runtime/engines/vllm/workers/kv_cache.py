"""The largest useful KV cache of a rank, calculated from vLLM's KV cache specs of the model's layers."""

from collections.abc import Mapping
from typing import Any

from gaudi_runtime.memory_split import OWN_BLOCKS

FULL_ATTENTION = frozenset({"FullAttentionSpec", "MLAAttentionSpec"})
"""vLLM's names for the specs of layers that keep the whole sequence."""


def useful_cache_bytes(vllm_config: Any, layers: Mapping[str, Any]) -> int | None:
    """Return the largest useful KV cache of a rank: the bytes that sequences can fill within vLLM's limits.

    `layers` maps the layer names of a rank to their KV cache specs. A worker reports the available bytes to vLLM. vLLM
    divides these bytes by the size of one block in all layers. Return None if more bytes may be useful: with prefix
    caching, with a watermark of free blocks, and for a model with other layers than full attention of one size.
    """
    # Cached prefixes can fill any number of blocks. A watermark keeps a share of all blocks free of new requests. In
    # both cases more blocks may be of use.
    if vllm_config.cache_config.enable_prefix_caching or getattr(vllm_config.scheduler_config, "watermark", 0):
        return None
    kinds = {(type(spec).__name__, int(spec.block_size), int(spec.page_size_bytes)) for spec in layers.values()}
    # If layers differ, vLLM pads their blocks. The plugin also creates separate tensors for Mamba layers. This
    # calculation covers neither case.
    if len(kinds) != 1:
        return None
    ((name, block_size, page_bytes),) = kinds
    if name not in FULL_ATTENTION:
        return None
    # Speculative tokens need no additional blocks, because vLLM allocates no slots above `max_model_len`.
    sequence_blocks = -(-int(vllm_config.model_config.max_model_len) // block_size)
    blocks = int(vllm_config.scheduler_config.max_num_seqs) * sequence_blocks + OWN_BLOCKS
    return blocks * page_bytes * len(layers)
