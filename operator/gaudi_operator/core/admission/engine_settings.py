"""Admission of the engine's settings: knobs, attention slices, speculative decoding and KV blocks.

The check of engine settings: finds settings, arguments and variables that are wrong or have no effect.

The runtime defines the rules (gaudi_runtime/knobs). Messages name the fields of the resource (docs/reference/knobs.md).

Admission of padding-aware buckets of long prompts, whose attention vLLM's plugin for Gaudi computes in slices.

The rule changes with the plugin's releases. Therefore it applies only to new revisions. Running pods have already shown
that their spec works.

Admission of speculative decoding: checks whether planned shapes can verify the draft tokens of a spec.

See docs/internals/vllm.md, Speculative decoding.

Bounds on the KV blocks that hold for any model, so they need no checkpoint, and the check of a bucket policy.

A spec that fails these checks can never work. If a spec passes, the pod checks it after its profile run
(docs/internals/warmup.md, Memory split).

Hints about a spec: its execution mode, its draft tokens and its vision buckets.

Hints are part of the message of the condition PlanAccepted. They never refuse a spec (docs/how-to/running-vllm.md,
Hints).
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from gaudi_operator.api.v1alpha1.bucketing import Gaps
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import WarmupPolicy
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck
from gaudi_operator.core.inference import Inference, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.quantities import MOST_MEMORY, parse_byte_quantity
from gaudi_operator.core.rendering.runtime_config import (
    runs_on_cpu,
    runs_vllm_on_card,
    runtime_config,
    runtime_config_bucket_policy,
    runtime_config_execution_mode,
    runtime_config_limits,
    runtime_config_settings,
)
from gaudi_runtime.buckets.kv_blocks import most_useful_kv_blocks
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.bucketing import MOST_DRAFTS, Strategy
from gaudi_runtime.contract.config import EngineName, plan_hash
from gaudi_runtime.errors import Problem
from gaudi_runtime.knobs.attention_settings import (
    QUERY_PADDING,
    SLICES_FROM,
    SLICING,
    attention_slicing_threshold,
    attention_uses_slices,
)
from gaudi_runtime.knobs.fields import PAD_LIMITS, SLICE_SETTINGS, SLICED
from gaudi_runtime.knobs.setting_errors import (
    argument_errors,
    ignored_knobs,
    ignored_settings,
    setting_errors,
    unknown_variable_errors,
    variable_errors,
)
from gaudi_runtime.knobs.speculation import NGRAM, SETTING, Speculation, read_speculation, why_method_refused

_LEAST_SLICED = 1024


def check_slicing_settings(inference: Inference) -> Problem | None:
    """Refuse settings of sliced attention that the plugin rejects at load time."""
    spec, limits = inference.spec, runtime_config_limits(inference.spec)
    settings, max_tokens = spec.engine.settings, limits.max_num_batched_tokens
    if not runs_vllm_on_card(inference) or not attention_uses_slices(settings, spec.bucketing.strategy):
        return None
    setting, pad_max = settings.get(SLICES_FROM), runtime_config_bucket_policy(spec).prompt.query.pad_max
    threshold = attention_slicing_threshold(settings, max_tokens)
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


_SETTING = f"spec.engine.settings {SETTING}"


def check_speculation_settings(inference: Inference, _: InstallationDefaults) -> Problem | None:
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
    limits = runtime_config_limits(inference.spec)
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


LEAST_BYTES_PER_TOKEN = 2
"""The minimum bytes per token of a KV block, for key and value in one layer, with one head, dimension and byte."""


@cache_on_inference
def engine_policy_check(inference: Inference) -> BucketPolicyCheck:
    """Return the check of a resource's bucket policy."""
    spec = inference.spec
    policy, limits, kv_blocks = (
        runtime_config_bucket_policy(spec),
        runtime_config_limits(spec),
        max_engine_kv_blocks(spec),
    )
    refuses_gaps = spec.warmup.policy is WarmupPolicy.COMPLETE and spec.bucketing.gaps is Gaps.REFUSE
    key = f"{plan_hash(policy, limits)} {kv_blocks} {refuses_gaps}"
    return BucketPolicyCheck(policy, limits, kv_blocks, refuses_gaps, key)


def max_engine_kv_blocks(spec: GaudiInferenceSpec) -> int:
    """Return the maximum number of KV blocks that any model can use with this spec."""
    useful_blocks, memory = most_useful_kv_blocks(runtime_config_limits(spec)), spec.accelerator.device_memory
    if memory is None:
        return useful_blocks
    cache_bytes = int(parse_byte_quantity(memory) * _cache_share(spec))
    return min(useful_blocks, cache_bytes // (LEAST_BYTES_PER_TOKEN * spec.engine.block_size))


def min_engine_memory(spec: GaudiInferenceSpec) -> int:
    """Return the minimum memory budget in bytes that has room for one KV block of any model, at most MOST_MEMORY."""
    return ceil(min(MOST_MEMORY, LEAST_BYTES_PER_TOKEN * spec.engine.block_size / _cache_share(spec)))


def _cache_share(spec: GaudiInferenceSpec) -> float:
    """Return the share of device memory that the KV cache gets."""
    utilization = spec.engine.device_memory_utilization_percent / 100
    return utilization * (1 - spec.warmup.graph_memory_percent / 100)


def check_engine_settings(inference: Inference, _: InstallationDefaults) -> Problem | None:
    """Refuse engine settings that the engine does not know or would misread without reporting an error."""
    sentence = why_engine_settings_are_wrong(inference)
    return Problem("SettingsWrong", sentence) if sentence else None


MOST_SENTENCES = 5


def why_engine_settings_are_wrong(inference: Inference) -> str | None:
    """Return a message that names at most MOST_SENTENCES wrong engine settings, or None if all are valid."""
    return _join_sentences([f"spec.{fault}" for fault in _setting_faults(inference)])


@cache_on_inference
def why_engine_settings_are_ignored(inference: Inference) -> str | None:
    """Return a message that names every engine setting without effect, or None if all settings have an effect.

    The message also names bucket settings without effect, and variables that resemble knobs.
    """
    config = runtime_config(inference)
    sentences = (
        *_overridden_fields(inference),
        *ignored_knobs(config),
        *(
            f"engine.env {sentence}"
            for sentence in unknown_variable_errors(each.name for each in inference.spec.engine.env)
        ),
        *ignored_settings(config.bucketing, config.limits),
    )
    return _join_sentences([f"spec.{sentence}" for sentence in sentences])


def _overridden_fields(inference: Inference) -> Iterator[str]:
    """Yield sentences about fields and settings that other settings override. The sentences have no full stop."""
    limits, settings = runtime_config_limits(inference.spec), inference.spec.engine.settings
    if runs_vllm_on_card(inference) and limits.prefix_caching and limits.contiguous_paged_attention:
        yield (
            "engine.prefixCaching has no effect with contiguous paged attention, because vLLM's plugin then reuses no "
            "KV blocks. Only split prompts have a context. Set VLLM_CONTIGUOUS_PA to false in engine.settings, or set "
            "prefixCaching to false if no prompt is split"
        )
    if limits.sliding_window_slices is None:
        yield from (
            f"engine.settings {name} is ignored without {SLICED}" for name in SLICE_SETTINGS if name in settings
        )


def _setting_faults(inference: Inference) -> Iterator[str]:
    engine = inference.spec.engine
    variables = {variable.name: variable.value for variable in engine.env}
    script = runtime_config_settings(engine).sim_script
    settings = {name: value for name, value in engine.settings.items() if name not in script}
    yield from (f"engine.settings: {error}" for error in setting_errors(settings))
    yield from (f"engine.extraArgs: {error}" for error in argument_errors(engine.extra_args))
    yield from (f"engine.env: {error}" for error in variable_errors(variables))
    yield from (f"engine.settings: {error}" for error in _combination_errors(inference.spec))


def _combination_errors(spec: GaudiInferenceSpec) -> Iterator[str]:
    """Yield an error without a full stop for every setting that another field of the spec rules out."""
    strategy = spec.bucketing.strategy
    rows = (
        (
            SLICED,
            "cannot be combined with bucketing.strategy Optimal, which plans queries of any length: use another "
            "strategy",
            strategy is Strategy.OPTIMAL and "sliding_window_slices" in runtime_config_settings(spec.engine).limits,
        ),
        *(
            (name, "is only for strategy PaddingAware: remove it", strategy is not Strategy.PADDING_AWARE)
            for name in PAD_LIMITS
            if name in spec.engine.settings
        ),
    )
    return (f"{name} {reason}" for name, reason, is_used in rows if is_used)


def _join_sentences(sentences: list[str]) -> str | None:
    if not sentences:
        return None
    remaining_count = len(sentences) - MOST_SENTENCES
    first_sentences = "; ".join(sentences[:MOST_SENTENCES])
    return f"{first_sentences}; and {remaining_count} more." if remaining_count > 0 else f"{first_sentences}."


def engine_settings_hints(inference: Inference) -> tuple[str, ...]:
    """Return hints as sentences: about the execution mode of a stored revision, and about a vLLM engine."""
    spec = inference.spec
    mode_hints = tuple(_execution_mode_hints(inference))
    if spec.engine.name is not EngineName.VLLM:
        return mode_hints
    return (*mode_hints, *_speculation_hints(spec), *(_vision_hints(spec) if runs_vllm_on_card(inference) else ()))


def _execution_mode_hints(inference: Inference) -> Iterator[str]:
    """Yield a sentence if the default execution mode has changed and the next revision will use the new default."""
    stored_mode, next_mode = inference.stored_mode, runtime_config_execution_mode(replace(inference, stored_mode=None))
    if stored_mode is not None and inference.spec.engine.execution_mode is None and stored_mode is not next_mode:
        mode_name = capitalize_contract_word(stored_mode)
        yield (
            f"spec.engine.executionMode is left out. The pods use {mode_name}, the default when their revision was "
            f"created, but the next revision uses {capitalize_contract_word(next_mode)}. To keep {mode_name}, set "
            f"spec.engine.executionMode to {mode_name}. This restarts no pods."
        )


def _speculation_hints(spec: GaudiInferenceSpec) -> Iterator[str]:
    if read_speculation(spec.engine.settings):
        yield (
            "With speculative decoding, only greedy requests are served. Requests with a temperature, logprobs or a "
            "grammar get status 400."
        )


def _vision_hints(spec: GaudiInferenceSpec) -> Iterator[str]:
    if spec.model.items_per_prompt.image or spec.model.items_per_prompt.video:
        yield (
            "Vision buckets are unknown until a pod has loaded the model. Until then, plans contain no vision buckets."
        )
