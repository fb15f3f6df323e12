"""The rules of vLLM's plugin for Gaudi that can be checked before a pod runs.

The rules change with the plugin's releases. Therefore they apply only to new revisions. Running pods have already shown
that their spec works.
"""

from collections.abc import Iterator
from math import ceil

from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.admission.plan_figures import admission_figures, card_attention
from gaudi_operator.core.rendering.execution_mode import captures_graphs, execution_mode, runs_vllm_on_card
from gaudi_operator.core.rendering.runtime_config import plan_limits, runtime_config
from gaudi_operator.core.resource import Inference
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.errors import Checks, Problem
from gaudi_runtime.knobs.attention_settings import (
    SLICES_FROM,
    SLICING,
    slicing_threshold,
    uses_slices,
    why_not_indexable,
)
from gaudi_runtime.units import plural

_LEAST_SLICED = 1024


def check_attention_slicing(inference: Inference) -> Problem | None:
    """Refuse plans whose sliced attention the plugin rejects at load time (padding-aware buckets of long prompts)."""
    spec, limits = inference.spec, plan_limits(inference.spec)
    settings, max_tokens = spec.engine.settings, limits.max_num_batched_tokens
    if not runs_vllm_on_card(inference) or not uses_slices(settings, spec.bucketing.strategy):
        return None
    setting, pad_max = settings.get(SLICES_FROM), spec.bucketing.prompt.query.pad_max
    threshold = slicing_threshold(settings, max_tokens)
    min_threshold = max(_LEAST_SLICED, limits.block_size + 1)
    alternative = f"or set spec.engine.settings {SLICING} to false"
    if threshold < min_threshold:
        spec_field = f"spec.engine.settings {SLICES_FROM}" if setting else "spec.engine.maxNumBatchedTokens"
        return Problem(
            "PlanImpossible",
            f"{spec_field} is {threshold}, but must be at least {min_threshold}. With strategy PaddingAware, "
            f"vLLM's plugin splits attention from this length on. Raise the value, {alternative}.",
        )
    if (ceil(max_tokens / 4) if pad_max is None else pad_max) < limits.block_size:
        return Problem(
            "PlanImpossible",
            "spec.bucketing.prompt.query.padMax (default: a quarter of maxNumBatchedTokens) is below blockSize "
            f"{limits.block_size}. vLLM's plugin splits attention by padMax and would not load. Raise padMax, "
            f"{alternative}.",
        )
    return None


def check_attention_computable(inference: Inference) -> Problem | None:
    """Refuse a plan with a prompt bucket for which vLLM's plugin would return NaN without an error."""
    attention = card_attention(inference)
    if attention is None or (bucket := admission_figures(inference).unindexable) is None:
        return None
    reason = why_not_indexable(bucket, runtime_config(inference), attention, "spec.")
    return Problem("PlanImpossible", f"spec.bucketing: {reason}.")


def fields_ignored_by_plugin(inference: Inference) -> Iterator[str]:
    """Yield sentences about fields that the plugin overrides. The sentences have no full stop."""
    engine = inference.spec.engine
    if runs_vllm_on_card(inference) and engine.prefix_caching and engine.contiguous_paged_attention:
        yield (
            "engine.prefixCaching has no effect with engine.contiguousPagedAttention, because vLLM's plugin then "
            "reuses no KV blocks. Only split prompts have a context. Set contiguousPagedAttention to false, or set "
            "prefixCaching to false if no prompt is split"
        )


def check_default_token_limit(inference: Inference) -> Problem | None:
    """Refuse thresholds that are unreachable because of the plugin's default token limit for graphs."""
    spec = inference.spec
    requires_graphs = captures_graphs(inference) and spec.readiness.on_shortfall is not Shortfall.SERVE_AND_WARN
    if not requires_graphs or spec.warmup.max_graph_tokens is not None:
        return None
    max_tokens = plan_limits(spec).max_num_batched_tokens
    sentence = why_too_few_graphs(inference, f"is left out, so the limit is maxNumBatchedTokens {max_tokens}, which")
    return Problem("ThresholdsUnreachable", sentence) if sentence else None


def why_too_few_graphs(inference: Inference, limit_origin: str) -> str | None:
    """Return why too few prompt buckets are small enough for graphs to meet the threshold, or None.

    `limit_origin` describes the origin of the token limit. The plugin counts all tokens of a padded batch, including
    cached context.
    """
    spec = inference.spec
    if not runs_vllm_on_card(inference) or execution_mode(inference) is not ExecutionMode.HPU_GRAPHS:
        return None
    # The caller has already called check_plan_possible(), so this call cannot raise PlanImpossible.
    plan, percent = admission_figures(inference), spec.readiness.min_captured_prompt_percent
    max_percent = 100 * plan.prompts_within_limit // plan.prompt
    excluded = (
        f"spec.warmup.maxGraphTokens {limit_origin} leaves {plan.prompt - plan.prompts_within_limit} of "
        f"{plural(plan.prompt, 'prompt bucket')} without a graph"
    )
    if not plan.prompts_within_limit:
        return f"{excluded}, but a gate opens only if at least one prompt graph is captured. Raise maxGraphTokens."
    if max_percent >= percent:
        return None
    return (
        f"{excluded}, but spec.readiness requires {percent} % of prompt graphs. Raise maxGraphTokens, or lower "
        f"spec.readiness.minCapturedPromptPercent to {max_percent}."
    )


plugin_violation = Checks(check_attention_slicing, check_attention_computable, check_default_token_limit)
"""Return the violation of a plugin rule that keeps pods of a new revision from serving, or None."""
