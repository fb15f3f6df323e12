"""Admission of padding-aware buckets of long prompts, whose attention vLLM's plugin for Gaudi computes in slices.

The rule changes with the plugin's releases. Therefore it applies only to new revisions. Running pods have already shown
that their spec works.
"""

from math import ceil

from gaudi_operator.core.inference import Inference
from gaudi_operator.core.rendering.execution_mode import runs_vllm_on_card
from gaudi_operator.core.rendering.runtime_config import bucket_policy, plan_limits
from gaudi_runtime.errors import Problem
from gaudi_runtime.knobs.attention_settings import QUERY_PADDING, SLICES_FROM, SLICING, slicing_threshold, uses_slices

_LEAST_SLICED = 1024


def check_attention_slicing(inference: Inference) -> Problem | None:
    """Refuse settings of sliced attention that the plugin rejects at load time."""
    spec, limits = inference.spec, plan_limits(inference.spec)
    settings, max_tokens = spec.engine.settings, limits.max_num_batched_tokens
    if not runs_vllm_on_card(inference) or not uses_slices(settings, spec.bucketing.strategy):
        return None
    setting, pad_max = settings.get(SLICES_FROM), bucket_policy(spec).prompt.query.pad_max
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
            f"spec.engine.settings {QUERY_PADDING} (default: a quarter of maxNumBatchedTokens) is below blockSize "
            f"{limits.block_size}. vLLM's plugin splits attention by this value and would not load. Raise the value, "
            f"{alternative}.",
        )
    return None
