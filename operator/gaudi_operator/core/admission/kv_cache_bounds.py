"""Bounds on the KV cache of any model, which are known before a model is read.

The operator does not read the checkpoint, so it assumes the minimum that any model needs. A spec that fails here can
never work. A spec that passes is checked again by the runtime after its profile run (docs/internals/warmup.md, Memory
split).
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


def most_kv_blocks(spec: GaudiInferenceSpec) -> int:
    """Return the upper bound of KV cache blocks that any model can have or use with this spec."""
    limits = plan_limits(spec)
    # Full sequences in all slots use no more blocks.
    useful = ceil(limits.max_model_len / limits.block_size) * limits.max_num_seqs
    budget = usable_bytes(spec)
    # The free memory of a card is unknown before a pod runs. Its total memory is an upper bound.
    kept = _card_bytes(spec) if budget is None else budget * (1 - spec.warmup.graph_memory_percent / 100)
    return min(MOST_KV_BLOCKS, useful, int(kept) // (LEAST_BYTES_PER_TOKEN * limits.block_size))


def _card_bytes(spec: GaudiInferenceSpec) -> int:
    """Return the memory of the card that the spec names, or of the largest described card, in bytes."""
    memories = {name: card.memory.most for name, card in CARDS.items() if card.memory}
    return int(memories.get(spec.accelerator.generation.value, max(memories.values())))


def least_memory(spec: GaudiInferenceSpec) -> int:
    """Return the minimum memory budget in bytes for a KV cache of one block of any model.

    The result is at most MOST_MEMORY.
    """
    utilization = spec.engine.device_memory_utilization_percent / 100
    kept = utilization * (1 - spec.warmup.graph_memory_percent / 100)
    return ceil(min(MOST_MEMORY, LEAST_BYTES_PER_TOKEN * spec.engine.block_size / kept))


def usable_bytes(spec: GaudiInferenceSpec) -> int | None:
    """Return the bytes of the memory budget, which bound the KV cache, or None if the spec sets no budget."""
    memory = spec.accelerator.device_memory
    return None if memory is None else int(parse_bytes(memory) * spec.engine.device_memory_utilization_percent / 100)
