"""Admission of speculative decoding: checks whether planned shapes can verify the draft tokens of a spec.

See docs/internals/vllm.md, Speculative decoding.
"""

from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.rendering.execution_mode import runs_on_cpu
from gaudi_operator.core.rendering.runtime_config import plan_limits
from gaudi_runtime.contract.bucketing import MOST_DRAFTS
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.errors import Problem
from gaudi_runtime.knobs.speculation import NGRAM, SETTING, Speculation, read_speculation, why_method_refused

_SETTING = f"spec.engine.settings {SETTING}"


def check_speculation(inference: Inference, _: InstallationDefaults) -> Problem | None:
    """Refuse speculative decoding that has no planned buckets or that vLLM's plugin cannot run correctly."""
    spec = inference.spec
    speculation = read_speculation(spec.engine.settings)
    if speculation is None or spec.engine.name is not EngineName.VLLM:
        return None
    if runs_on_cpu(spec.accelerator):
        return Problem(
            "NotBuilt",
            f"{_SETTING} is not implemented in this release for spec.accelerator.generation: none. Remove the setting.",
        )
    if speculation.method != NGRAM:
        return Problem(
            "NotBuilt",
            f"{_SETTING}: method {speculation.method} is not implemented in this release, because "
            f"{why_method_refused(speculation.method)}. Use method {NGRAM}.",
        )
    fault = _speculation_fault(inference, speculation)
    return Problem("SettingsWrong", f"{_SETTING}: {fault}") if fault else None


def _speculation_fault(inference: Inference, speculation: Speculation) -> str | None:
    if speculation.draft_tokens is None or not 1 <= speculation.draft_tokens <= MOST_DRAFTS:
        return f"num_speculative_tokens must be a whole number from 1 to {MOST_DRAFTS}."
    limits = plan_limits(inference.spec)
    if limits.contiguous_paged_attention:
        return (
            "vLLM's plugin gives wrong answers with contiguous paged attention. Set VLLM_CONTIGUOUS_PA to "
            "false in spec.engine.settings."
        )
    # One step must have room for a full prompt and for the draft tokens of all sequences. Otherwise the batch is
    # shortened and has shapes without a graph, and a step with a part of a prompt crashes the plugin's model runner.
    min_tokens = limits.max_model_len + limits.max_num_seqs * (1 + speculation.draft_tokens)
    if limits.max_num_batched_tokens < min_tokens:
        return (
            f"spec.engine.maxNumBatchedTokens is {limits.max_num_batched_tokens}, but must be at least {min_tokens}. A "
            f"step needs room for a prompt of maxModelLen tokens and for {1 + speculation.draft_tokens} tokens of each "
            "of maxNumSeqs sequences."
        )
    return None
