"""Bounds on what a memory budget can hold, known before any model is read.

The operator does not see the checkpoint, so it takes the least that any model needs: what is refused here can
never work, what passes is judged again by the runtime after its profile run (docs/warmup.md, Memory split).
"""

from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.quantity import whole_bytes
from gaudi_operator.core.runtime_config import execution_mode, plan_limits
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import ExecutionMode

LEAST_BYTES_PER_TOKEN = 2
"""Of a KV block: a key and a value of one head, one dimension and one byte, in one layer."""

LEAST_BYTES_PER_INPUT = 4
"""Of a graph: one token id per input position, and nothing else."""


def captures(spec: GaudiInferenceSpec) -> bool:
    """Whether pods capture graphs at all."""
    return spec.warmup.enabled and execution_mode(spec) not in (ExecutionMode.LAZY, ExecutionMode.EAGER)


def most_kv_blocks(spec: GaudiInferenceSpec) -> int:
    """No model can have more KV blocks than this, nor use more."""
    limits = plan_limits(spec)
    useful = ceil(limits.max_model_len / limits.block_size) * limits.max_num_seqs
    budget = _usable_bytes(spec)
    if budget is None:
        return useful
    kept = budget * (1 - spec.warmup.graph_memory_share)
    return min(useful, int(kept) // (LEAST_BYTES_PER_TOKEN * limits.block_size))


def why_unreachable(spec: GaudiInferenceSpec, plan: BucketPlan) -> str | None:
    """The sentence that says why the thresholds can never be met; None when a small enough model may meet them."""
    prompt, decode = spec.readiness.min_captured_prompt_percent, spec.readiness.min_captured_decode_percent
    if spec.warmup.graph_memory_share == 0 and (prompt or decode):
        return (
            "spec.warmup.graphMemoryShare is 0, so no memory is kept for graphs, but spec.readiness asks for "
            f"{prompt} % of prompt and {decode} % of decode graphs: raise the share or lower the percentages."
        )
    budget = _usable_bytes(spec)
    least = _least_graph_bytes(plan.prompt, prompt) + _least_graph_bytes(plan.decode, decode)
    if budget is None or least <= budget:
        return None
    return (
        f"spec.readiness asks for {prompt} % of {len(plan.prompt)} prompt and {decode} % of {len(plan.decode)} decode "
        f"graphs, whose inputs alone take {least} bytes; spec.accelerator.deviceMemory leaves {budget}: "
        "raise it, plan fewer buckets or lower the percentages."
    )


def _usable_bytes(spec: GaudiInferenceSpec) -> int | None:
    """Bytes of the budget that may be used; None when the memory is a card's and measured."""
    memory = spec.accelerator.device_memory
    return None if memory is None else int(whole_bytes(memory) * spec.engine.device_memory_utilization)


def _least_graph_bytes(buckets: tuple[Bucket, ...], percent: int) -> int:
    needed = ceil(len(buckets) * percent / 100)
    sizes = sorted(bucket.batch_size * bucket.query_len for bucket in buckets)
    return LEAST_BYTES_PER_INPUT * sum(sizes[:needed])
