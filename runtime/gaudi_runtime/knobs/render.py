"""Rendering of a RuntimeConfig into the environment and arguments that start its engine.

See docs/reference/knobs.md, Rendering.
"""

from dataclasses import dataclass

from gaudi_runtime.contract.config import EngineConfig, RuntimeConfig
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.check import wrong_arguments, wrong_settings
from gaudi_runtime.knobs.fields import Value, field_values
from gaudi_runtime.knobs.table import Kind, Knob, Reader, knobs, readers, unmet_need
from gaudi_runtime.knobs.values import FLAG, wire_value

# vLLM declares these with nargs="+". After "=" it would take one word only.
SEVERAL_WORDS = ("--served-model-name", "--lora-modules")


@dataclass(frozen=True)
class Rendered:
    """The environment and the `vllm serve` arguments of an engine process."""

    env: dict[str, str]
    args: tuple[str, ...]


def render_engine_options(config: RuntimeConfig) -> Rendered:
    """Render fields and engine.settings into the environment and arguments of the engine.

    Values that the engine does not read are left out. Raises ConfigError with a sentence on every wrong setting.
    """
    wrong = why_not_rendered(config.engine)
    if wrong:
        raise ConfigError(f"{wrong}.")
    reading = readers(config.engine)
    if not reading:
        return Rendered({}, ())
    settings = sorted(config.engine.settings.items())
    values = {**_words_of_fields(config), **{name: (wire_value(knobs()[name], value),) for name, value in settings}}
    mine = [(knobs()[name], words) for name, words in values.items() if knobs()[name].reader in reading]
    env = {knob.name: " ".join(words) for knob, words in mine if knob.kind is Kind.VARIABLE}
    args = tuple(part for knob, words in mine if knob.kind is Kind.ARGUMENT for part in _argument(knob, words))
    return Rendered(dict(sorted(env.items())), args + (config.engine.extra_args if Reader.VLLM in reading else ()))


def why_not_rendered(engine: EngineConfig) -> str | None:
    """Return why settings and extra arguments cannot be rendered, without a full stop; None if they can."""
    settings = [f"engine.settings: {each}" for each in wrong_settings(engine.settings)]
    arguments = [f"engine.extraArgs: {each}" for each in wrong_arguments(engine.extra_args)]
    return "; ".join([*settings, *arguments]) or None


def _words_of_fields(config: RuntimeConfig) -> dict[str, tuple[str, ...]]:
    # Settings that the strategy or mode ignores are not passed, because the engine must plan the same buckets as we do.
    rows = ((knobs()[name], value) for name, value in field_values(config).items())
    return {
        knob.name: _words(knob, value) for knob, value in rows if value is not None and unmet_need(knob, config) is None
    }


def _words(knob: Knob, value: Value) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (wire_value(knob, str(value).lower()) if isinstance(value, bool) else str(value),)


def _argument(knob: Knob, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return an argument: a flag or its --no- form, a name with several words, or --name=value."""
    if knob.range == FLAG:
        return (knob.name if words == ("true",) else knob.name.replace("--", "--no-", 1),)
    return (knob.name, *words) if knob.name in SEVERAL_WORDS else (f"{knob.name}={words[0]}",)
