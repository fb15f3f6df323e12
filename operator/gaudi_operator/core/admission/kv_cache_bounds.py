"""Bounds on the KV cache that hold for any model, so they need no checkpoint.

The operator does not read the checkpoint. Therefore it assumes the minimum memory that any model needs. A spec that
fails these checks can never work. If a spec passes, the runtime checks it after its profile run
(docs/internals/warmup.md, Memory split).
"""

from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.quantities import MOST_MEMORY, parse_bytes
from gaudi_operator.core.rendering.runtime_config import plan_limits
from gaudi_runtime.catalog.cards import CARDS

MOST_KV_BLOCKS = 2**31 - 1
"""The maximum number of KV blocks, because engines number blocks by signed 32-bit integers."""

LEAST_BYTES_PER_TOKEN = 2
"""The minimum bytes per token of a KV block, for key and value in one layer, with one head, dimension and byte."""


def max_kv_blocks(spec: GaudiInferenceSpec) -> int:
    """Return the maximum number of KV cache blocks that any model can use with this spec."""
    limits = plan_limits(spec)
    # Full sequences in all slots never use more than this number of blocks.
    useful_blocks = ceil(limits.max_model_len / limits.block_size) * limits.max_num_seqs
    budget = usable_bytes(spec)
    # The free memory of a card is unknown before a pod runs. Therefore use the total memory, which is an upper bound.
    cache_bytes = _card_bytes(spec) if budget is None else budget * (1 - spec.warmup.graph_memory_percent / 100)
    return min(MOST_KV_BLOCKS, useful_blocks, int(cache_bytes) // (LEAST_BYTES_PER_TOKEN * limits.block_size))


def _card_bytes(spec: GaudiInferenceSpec) -> int:
    """Return the memory of the spec's card in bytes. If the card is not described, return the largest memory."""
    memories = {name: card.memory.most for name, card in CARDS.items() if card.memory}
    return int(memories.get(spec.accelerator.generation.value, max(memories.values())))


def min_device_memory(spec: GaudiInferenceSpec) -> int:
    """Return the minimum memory budget in bytes that has room for one KV cache block of any model.

    The result is at most MOST_MEMORY.
    """
    utilization = spec.engine.device_memory_utilization_percent / 100
    cache_share = utilization * (1 - spec.warmup.graph_memory_percent / 100)
    return ceil(min(MOST_MEMORY, LEAST_BYTES_PER_TOKEN * spec.engine.block_size / cache_share))


def usable_bytes(spec: GaudiInferenceSpec) -> int | None:
    """Return the memory budget in bytes, which limits the KV cache, or None if the spec sets no budget."""
    memory = spec.accelerator.device_memory
    return None if memory is None else int(parse_bytes(memory) * spec.engine.device_memory_utilization_percent / 100)
