"""The conversion of a RuntimeConfig to the environment and the arguments that start its engine.

See docs/reference/knobs.md, Rendering.
"""

from dataclasses import dataclass

from gaudi_runtime.contract.config import EngineConfig, RuntimeConfig
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.check import wrong_arguments, wrong_settings
from gaudi_runtime.knobs.fields import Value, field_values
from gaudi_runtime.knobs.table import Kind, Knob, Reader, knobs, readers, unmet_need
from gaudi_runtime.knobs.values import FLAG, wire_value

# vLLM declares these arguments with nargs="+". In the form `--name=value`, argparse would accept only one value.
SEVERAL_WORDS = ("--served-model-name", "--lora-modules")


@dataclass(frozen=True)
class Rendered:
    """The environment and the `vllm serve` arguments of an engine process."""

    env: dict[str, str]
    args: tuple[str, ...]


def render_engine_options(config: RuntimeConfig) -> Rendered:
    """Return the environment and the arguments of the engine for the fields and engine.settings.

    Values that the engine does not read are omitted. Raises ConfigError with one sentence for every wrong setting.
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
    """Return why settings and extra arguments are invalid, without a full stop; None if all are valid."""
    settings = [f"engine.settings: {each}" for each in wrong_settings(engine.settings)]
    arguments = [f"engine.extraArgs: {each}" for each in wrong_arguments(engine.extra_args)]
    return "; ".join([*settings, *arguments]) or None


def _words_of_fields(config: RuntimeConfig) -> dict[str, tuple[str, ...]]:
    # Omit settings that the strategy or the execution mode does not use, because the engine must plan the same buckets
    # as the runtime.
    rows = ((knobs()[name], value) for name, value in field_values(config).items())
    return {
        knob.name: _words(knob, value) for knob, value in rows if value is not None and unmet_need(knob, config) is None
    }


def _words(knob: Knob, value: Value) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (wire_value(knob, str(value).lower()) if isinstance(value, bool) else str(value),)


def _argument(knob: Knob, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return an argument in one of the forms --flag, --no-flag, --name followed by words, or --name=value."""
    if knob.range == FLAG:
        return (knob.name if words == ("true",) else knob.name.replace("--", "--no-", 1),)
    return (knob.name, *words) if knob.name in SEVERAL_WORDS else (f"{knob.name}={words[0]}",)
