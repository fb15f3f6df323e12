"""The checks of a plan in a pod: before the model is fetched, and with the real KV blocks before warm-up.

The operator has already checked the policy (planning/precheck.py). A pod checks what needs all buckets, the card or the
loaded model.
"""

from collections.abc import Mapping

from gaudi_runtime.buckets.bucket import bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks, most_useful_kv_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import EngineName, ExecutionMode, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, CapturableGraphsReport, PlanGapsReport
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.knobs.attention_settings import fused_attention, why_attention_impossible
from gaudi_runtime.planning.coverage import PlanCoverage, decode_coverage, prompt_coverage
from gaudi_runtime.planning.kept_plans import kept_plan
from gaudi_runtime.planning.precheck import precheck, precheck_missing_buckets


def check_plan_before_fetch(config: RuntimeConfig, environment: Mapping[str, str]) -> BucketPlan:
    """Check the largest plan that this configuration can have, before the model is fetched, and return it.

    `environment` contains the environment variables of the runtime. Raises PlanImpossible or BucketsMissing.
    """
    blocks = most_useful_kv_blocks(config.limits)
    precheck(config.bucketing, config.limits, blocks, refuses_gaps=_refuses_gaps(config))
    plan = kept_plan(config.bucketing, config.limits, blocks)
    attention = fused_attention(config, environment)
    if reason := why_attention_impossible(plan.prompt, config, attention):
        raise PlanImpossible(reason)
    return plan


def find_plan_gaps(plan: BucketPlan, config: RuntimeConfig, blocks: DeviceBlocks) -> PlanGapsReport:
    """Return the gaps of the plan on this device. Raises BucketsMissing if the configuration allows no gaps."""
    decode_limits = config.limits.model_copy(update={"block_size": blocks.decode_size})
    coverage = PlanCoverage(
        prompt_coverage(plan.prompt, blocks.adjust_limits(config.limits)),
        decode_coverage(plan.decode, decode_limits, blocks.count),
    )
    message = coverage.describe_gaps()
    if message and _refuses_gaps(config):
        raise precheck_missing_buckets(message)
    return PlanGapsReport(prompt=coverage.prompt.gap_count, decode=coverage.decode.gap_count, message=message)


def _refuses_gaps(config: RuntimeConfig) -> bool:
    return bool(config.limits.gapless) and config.warmup.enabled


def capturable_plan_graphs(plan: BucketPlan, config: RuntimeConfig, limits: Limits) -> CapturableGraphsReport:
    """Return the number of graphs that the limit of graph tokens does not exclude.

    `limits` have the real block size of the engine.
    """
    most_tokens = most_graph_tokens(config, limits)
    prompt = [
        bucket
        for bucket in plan.prompt
        if most_tokens is None or bucket_weight(BucketPhase.PROMPT, bucket, limits.block_size) <= most_tokens
    ]
    return CapturableGraphsReport(prompt=len(prompt), decode=len(plan.decode))


def most_graph_tokens(config: RuntimeConfig, limits: Limits) -> int | None:
    """Return the most tokens, context included, of a prompt with a graph; None if the engine has no such limit.

    By default, vLLM's plugin captures no graph that has more tokens than one step may have.
    """
    engine = config.engine
    is_limited = engine.name is EngineName.VLLM and engine.device == "hpu"
    if not is_limited or engine.execution_mode is not ExecutionMode.HPU_GRAPHS:
        return None
    return config.warmup.max_graph_tokens or limits.max_num_batched_tokens
