"""Bounds on what a memory budget can hold, known before any model is read.

The operator does not see the checkpoint, so it takes the least that any model needs: what is refused here can
never work, what passes is judged again by the runtime after its profile run (docs/internals/warmup.md, Memory split).
"""

from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.quantities import MOST_MEMORY, parse_bytes
from gaudi_operator.core.rendering.runtime_config import execution_mode, plan_limits
from gaudi_operator.core.resource import Inference
from gaudi_runtime.catalog.cards import CARDS
from gaudi_runtime.contract.config import ExecutionMode

MOST_KV_BLOCKS = 2**31 - 1
"""Engines number KV blocks by signed integers of 32 bits."""

LEAST_BYTES_PER_TOKEN = 2
"""Of a KV block: a key and a value of one head, one dimension and one byte, in one layer."""


def captures(inference: Inference) -> bool:
    """Whether pods capture graphs at all."""
    eager = execution_mode(inference) in (ExecutionMode.LAZY, ExecutionMode.EAGER)
    return inference.spec.warmup.enabled and not eager


def most_kv_blocks(spec: GaudiInferenceSpec) -> int:
    """No model can have more KV blocks than this, nor use more."""
    limits = plan_limits(spec)
    # A full sequence in every slot refers to no more.
    useful = ceil(limits.max_model_len / limits.block_size) * limits.max_num_seqs
    budget = usable_bytes(spec)
    # A card's free memory is not known before a pod runs: its whole memory bounds what any split leaves.
    kept = _card_bytes(spec) if budget is None else budget * (1 - spec.warmup.graph_memory_percent / 100)
    return min(MOST_KV_BLOCKS, useful, int(kept) // (LEAST_BYTES_PER_TOKEN * limits.block_size))


def _card_bytes(spec: GaudiInferenceSpec) -> int:
    """Bytes of the card that the spec names, or of the largest one that is described."""
    memories = {name: card.memory.most for name, card in CARDS.items() if card.memory}
    return int(memories.get(spec.accelerator.generation.value, max(memories.values())))


def least_memory(spec: GaudiInferenceSpec) -> int:
    """Bytes of a memory budget below which no model has a KV block, MOST_MEMORY at most; graphs must not have all."""
    utilization = spec.engine.device_memory_utilization_percent / 100
    kept = utilization * (1 - spec.warmup.graph_memory_percent / 100)
    return ceil(min(MOST_MEMORY, LEAST_BYTES_PER_TOKEN * spec.engine.block_size / kept))


def usable_bytes(spec: GaudiInferenceSpec) -> int | None:
    """Bytes of the budget that may be used; None when the memory is a card's and measured."""
    memory = spec.accelerator.device_memory
    return None if memory is None else int(parse_bytes(memory) * spec.engine.device_memory_utilization_percent / 100)
