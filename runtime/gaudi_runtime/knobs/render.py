"""The conversion of a RuntimeConfig to the environment and the arguments that start its engine.

See docs/reference/knobs.md, Rendering.
"""

from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from gaudi_runtime.contract.config import EngineConfig, RuntimeConfig
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.fields import SETTING_FIELDS, Value, field_values
from gaudi_runtime.knobs.setting_errors import argument_errors, setting_errors
from gaudi_runtime.knobs.table import (
    FLAG,
    Knob,
    KnobKind,
    active_knob_readers,
    knobs,
    to_engine_value_of_knob,
    unmet_knob_need,
)

# vLLM declares these arguments with nargs="+". In the form `--name=value`, argparse would accept only one value.
SEVERAL_WORDS = ("--served-model-name", "--lora-modules")


@dataclass(frozen=True)
class RenderedEngineOptions:
    """The environment and the `vllm serve` arguments of an engine process."""

    env: dict[str, str]
    args: tuple[str, ...]


def render_engine_options(config: RuntimeConfig) -> RenderedEngineOptions:
    """Return the environment and the arguments of the engine for the fields and engine.settings.

    Values that the engine does not read are omitted. Raises ConfigError with one sentence for every wrong setting.
    """
    reason = why_settings_cannot_render(config.engine)
    if reason:
        raise ConfigError(f"{reason}.")
    readers = active_knob_readers(config.engine)
    if not readers:
        return RenderedEngineOptions({}, ())
    settings = sorted(config.engine.settings.items())
    values = {
        **_render_fields(config),
        **{name: (to_engine_value_of_knob(knobs()[name], value),) for name, value in settings},
    }
    engine_knobs = [(knobs()[name], words) for name, words in values.items() if knobs()[name].reader in readers]
    env = {knob.name: " ".join(words) for knob, words in engine_knobs if knob.kind is KnobKind.VARIABLE}
    args = tuple(
        part for knob, words in engine_knobs if knob.kind is KnobKind.ARGUMENT for part in _render_argument(knob, words)
    )
    return RenderedEngineOptions(dict(sorted(env.items())), args + config.engine.extra_args)


def why_settings_cannot_render(engine: EngineConfig) -> str | None:
    """Return why settings and extra arguments are invalid, without a full stop; None if all are valid."""
    bad_settings = [f"engine.settings: {error}" for error in setting_errors(engine.settings)]
    # The plan reads the fields, so an entry of the map would make the engine disagree with the plan.
    bad_settings += [
        f"engine.settings: {name} is a field of a RuntimeConfig: set {section}.{to_camel(field)}"
        for name, (section, field) in SETTING_FIELDS.items()
        if name in engine.settings
    ]
    bad_arguments = [f"engine.extraArgs: {error}" for error in argument_errors(engine.extra_args)]
    return "; ".join([*bad_settings, *bad_arguments]) or None


def _render_fields(config: RuntimeConfig) -> dict[str, tuple[str, ...]]:
    # Omit settings that the strategy or the execution mode does not use, because the engine must plan the same buckets
    # as the runtime.
    knob_values = ((knobs()[name], value) for name, value in field_values(config).items())
    return {
        knob.name: _render_value(knob, value)
        for knob, value in knob_values
        if value is not None and unmet_knob_need(knob, config) is None
    }


def _render_value(knob: Knob, value: Value) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (to_engine_value_of_knob(knob, str(value).lower()) if isinstance(value, bool) else str(value),)


def _render_argument(knob: Knob, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return an argument in one of the forms --flag, --no-flag, --name followed by words, or --name=value."""
    if knob.range == FLAG:
        return (knob.name if words == ("true",) else knob.name.replace("--", "--no-", 1),)
    return (knob.name, *words) if knob.name in SEVERAL_WORDS else (f"{knob.name}={words[0]}",)
