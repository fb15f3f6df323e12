"""The check of engine settings: finds settings, arguments and variables that are wrong or have no effect.

The runtime defines the rules (gaudi_runtime/knobs). Messages name the fields of the resource (docs/reference/knobs.md).
"""

from collections.abc import Iterator

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.inference import Inference, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.rendering.execution_mode import runs_vllm_on_card
from gaudi_operator.core.rendering.runtime_config import plan_limits, runtime_config, settings_by_place
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.errors import Problem
from gaudi_runtime.knobs.check import (
    argument_errors,
    ignored_knobs,
    setting_errors,
    unknown_variables,
    variable_errors,
)
from gaudi_runtime.knobs.ranges import ignored_settings
from gaudi_runtime.knobs.setting_fields import PAD_LIMITS, SLICE_SETTINGS, SLICED


def check_engine_settings(inference: Inference, _: InstallationDefaults) -> Problem | None:
    """Refuse engine settings that the engine does not know or would misread without reporting an error."""
    sentence = why_settings_are_wrong(inference)
    return Problem("SettingsWrong", sentence) if sentence else None


MOST_SENTENCES = 5


def why_settings_are_wrong(inference: Inference) -> str | None:
    """Return a message that names at most MOST_SENTENCES wrong engine settings, or None if all are valid."""
    return _join_sentences([f"spec.{fault}" for fault in _setting_faults(inference)])


@cache_on_inference
def why_settings_are_ignored(inference: Inference) -> str | None:
    """Return a message that names every engine setting without effect, or None if all settings have an effect.

    The message also names bucket settings without effect, and variables that resemble knobs.
    """
    config = runtime_config(inference)
    sentences = (
        *_overridden_fields(inference),
        *ignored_knobs(config),
        *(f"engine.env {sentence}" for sentence in unknown_variables(each.name for each in inference.spec.engine.env)),
        *ignored_settings(config.bucketing, config.limits),
    )
    return _join_sentences([f"spec.{sentence}" for sentence in sentences])


def _overridden_fields(inference: Inference) -> Iterator[str]:
    """Yield sentences about fields and settings that other settings override. The sentences have no full stop."""
    limits, settings = plan_limits(inference.spec), inference.spec.engine.settings
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
    script = settings_by_place(engine).sim_script
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
            strategy is Strategy.OPTIMAL and "sliding_window_slices" in settings_by_place(spec.engine).limits,
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
