"""Whether the graphs that readiness asks for can fit at all: a bound that holds for any model.

What is refused here can never work. What passes may still fall short: that is an estimate's work, and an estimate
refuses nothing (docs/conditions.md, Before a pod runs).
"""

from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.fit import captures, most_kv_blocks, usable_bytes
from gaudi_operator.core.outlook import plan_of
from gaudi_operator.core.quantity import at_least
from gaudi_operator.core.runtime_config import bucket_policy, execution_mode, plan_limits
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import EngineName, ExecutionMode
from gaudi_runtime.errors import PlanImpossible

LEAST_BYTES_PER_INPUT = 4
"""Of a graph: one token id per input position, and nothing else."""


def why_unreachable(spec: GaudiInferenceSpec) -> str | None:
    """The sentence that says why the gate can never open; None when a small enough model may open it."""
    if not captures(spec) or spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    prompt, decode = spec.readiness.min_captured_prompt_percent, spec.readiness.min_captured_decode_percent
    if spec.warmup.graph_memory_share == 0 and (prompt or decode):
        return (
            "spec.warmup.graphMemoryShare is 0, so no memory is kept for graphs, but spec.readiness asks for "
            f"{prompt} % of prompt and {decode} % of decode graphs: raise the share or lower the percentages."
        )
    return _why_too_long(spec, prompt) or _why_too_large(spec, prompt, decode)


def _why_too_long(spec: GaudiInferenceSpec, percent: int) -> str | None:
    """Only what a single sequence has counts, for the engine decides whether a whole batch counts too."""
    limit = spec.warmup.max_graph_tokens
    if limit is None or spec.engine.name is not EngineName.VLLM or execution_mode(spec) is not ExecutionMode.HPU_GRAPHS:
        return None
    planned = _most_buckets(spec)
    if planned is None:
        return None
    total = len(planned.prompt)
    within = sum(each.query_len + each.num_blocks * spec.engine.block_size <= limit for each in planned.prompt)
    most = 100 * within // total
    if most >= percent:
        return None
    return (
        f"spec.warmup.maxGraphTokens {limit} leaves {total - within} of {total} prompt buckets without a graph, but "
        f"spec.readiness asks for {percent} % of prompt graphs: raise it, or lower minCapturedPromptPercent to {most}."
    )


def _why_too_large(spec: GaudiInferenceSpec, prompt: int, decode: int) -> str | None:
    budget = usable_bytes(spec)
    if budget is None:
        return None
    plan = _most_buckets(spec)
    if plan is None:
        return None
    least = _least_graph_bytes(plan.prompt, prompt) + _least_graph_bytes(plan.decode, decode)
    if least <= budget:
        return None
    return (
        f"spec.readiness asks for {prompt} % of {len(plan.prompt)} prompt and {decode} % of {len(plan.decode)} decode "
        f"graphs, whose inputs alone take {least} bytes; spec.accelerator.deviceMemory leaves {budget}: "
        f"raise it to {at_least(ceil(least / spec.engine.device_memory_utilization))}, plan fewer buckets or lower the "
        "percentages."
    )


def _most_buckets(spec: GaudiInferenceSpec) -> BucketPlan | None:
    try:
        return plan_of(bucket_policy(spec), plan_limits(spec), most_kv_blocks(spec))
    except PlanImpossible:
        return None


def _least_graph_bytes(buckets: tuple[Bucket, ...], percent: int) -> int:
    needed = ceil(len(buckets) * percent / 100)
    sizes = sorted(bucket.batch_size * bucket.query_len for bucket in buckets)
    return LEAST_BYTES_PER_INPUT * sum(sizes[:needed])
