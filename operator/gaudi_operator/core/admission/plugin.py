"""What vLLM's plugin for Gaudi does by rules of its own, as far as a spec tells them before a pod runs.

The plugin is not ours and its rules move with its releases, so they are held against new revisions alone: what runs
has shown by itself how it gets on with them.
"""

from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.admission.bounds import captures, most_kv_blocks
from gaudi_operator.core.admission.plans import plan_of
from gaudi_operator.core.children.runtime_config import bucket_policy, execution_mode, on_cpu, plan_limits
from gaudi_operator.core.resource import Inference
from gaudi_runtime.contract.config import EngineName, ExecutionMode
from gaudi_runtime.errors import Checks, Problem
from gaudi_runtime.units import plural


def runs_the_plugin(inference: Inference) -> bool:
    """Whether the pods run vLLM on a card."""
    spec = inference.spec
    return spec.engine.name is EngineName.VLLM and not on_cpu(spec.accelerator)


def graphs_of_contexts_are_too_few(inference: Inference) -> Problem | None:
    """Where nothing is said, the plugin gives no graph to more tokens than a step may have; context counts."""
    spec = inference.spec
    asked = captures(inference) and spec.readiness.on_shortfall is not Shortfall.SERVE_AND_WARN
    if not asked or spec.warmup.max_graph_tokens is not None:
        return None
    limit = plan_limits(spec).max_num_batched_tokens
    sentence = why_too_few(inference, limit, f"is left out, so maxNumBatchedTokens {limit} counts, which")
    return Problem("ThresholdsUnreachable", sentence) if sentence else None


def why_too_few(inference: Inference, limit: int, said: str) -> str | None:
    """Why too few prompt buckets have at most `limit` tokens to meet the threshold; `said` is where it comes from.

    The plugin's rule: all tokens of a batch count, padded, with their cached context.
    """
    spec = inference.spec
    if not runs_the_plugin(inference) or execution_mode(inference) is not ExecutionMode.HPU_GRAPHS:
        return None
    # Never impossible: plan_is_impossible stands before the thresholds and asks for the same plan.
    prompts = plan_of(bucket_policy(spec), plan_limits(spec), most_kv_blocks(spec)).prompt
    percent, block = spec.readiness.min_captured_prompt_percent, spec.engine.block_size
    within = sum(each.batch_size * (each.query_len + each.num_blocks * block) <= limit for each in prompts)
    most = 100 * within // len(prompts)
    if most >= percent:
        return None
    return (
        f"spec.warmup.maxGraphTokens {said} leaves {len(prompts) - within} of {plural(len(prompts), 'prompt bucket')} "
        f"without a graph, but spec.readiness asks for {percent} % of prompt graphs: raise it, or lower "
        f"minCapturedPromptPercent to {most}."
    )


plugin_violation = Checks(graphs_of_contexts_are_too_few)
"""What keeps the pods of a new revision from serving by the plugin's own rules; None when they may."""
