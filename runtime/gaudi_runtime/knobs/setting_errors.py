"""The checks of a user's settings of the engine and of its buckets (docs/reference/knobs.md). Pure.

Each error is one sentence with the remedy. The checks find rejected entries in engine.settings, wrong engine.extraArgs,
unknown names, valid settings without an effect, and range settings that a strategy ignores
(docs/internals/planning.md, Ranges).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache

from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.bucketing import BucketingRangeSettings, BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.text import safe_excerpt
from gaudi_runtime.knobs.fields import PAD_LIMITS, SETTING_FIELDS
from gaudi_runtime.knobs.table import (
    Knob,
    KnobHome,
    KnobKind,
    KnobStatus,
    active_knob_readers,
    knobs,
    to_engine_value_of_knob,
    unmet_knob_need,
)

# The public planner applies its rules for long contexts to models of at least this length.
LONG_MODEL_LEN = 8192

_PAD_LIMITS = {place: name for name, place in PAD_LIMITS.items()}
_READ_BY = {
    Strategy.LINEAR: {"min", "step", "max"},
    Strategy.PADDING_AWARE: {"min", "step", "max", "padMax"},
}


def ignored_settings(policy: BucketPolicy, limits: Limits) -> Iterator[str]:
    """Yield a sentence for each range setting that a strategy ignores, with the name that users write."""
    strategy = capitalize_contract_word(policy.strategy)
    for dimension, settings in _range_settings(policy):
        without_context = dimension == "prompt.context" and not limits.has_context
        for name in settings.model_dump(by_alias=True, exclude_none=True, exclude={"pad_percent"}):
            place = f"bucketing.{dimension}"
            setting = f"engine.settings {_PAD_LIMITS[place]}" if name == "padMax" else f"{place}.{name}"
            if limits.steps_by_tokens and dimension in ("prompt.batchSize", "prompt.context"):
                yield (
                    f"{setting} is ignored: on a CPU, the compiled steps of vLLM differ only in their number of tokens"
                )
            elif without_context:
                yield (f"{setting} is ignored: without prefix caching or split prompts, prompts have no context")
            elif name not in _used_settings(policy.strategy, dimension, limits):
                yield f"{setting} is ignored by the {strategy} strategy"
    pads = any(settings.pad_percent is not None for _, settings in _range_settings(policy))
    if pads and policy.strategy is not Strategy.PADDING_AWARE:
        yield f"bucketing.paddingAware is ignored by the {strategy} strategy"
    if policy.file is not None and policy.strategy is not Strategy.FILE:
        yield f"bucketing.file is ignored by the {strategy} strategy"
    if policy.optimal is not None and policy.strategy is not Strategy.OPTIMAL:
        yield f"bucketing.optimal is ignored by the {strategy} strategy"


def _range_settings(policy: BucketPolicy) -> Iterator[tuple[str, BucketingRangeSettings]]:
    yield "prompt.batchSize", policy.prompt.batch_size
    yield "prompt.query", policy.prompt.query
    yield "prompt.context", policy.prompt.context
    yield "decode.batchSize", policy.decode.batch_size
    yield "decode.blocks", policy.decode.blocks


def _used_settings(strategy: Strategy, dimension: str, limits: Limits) -> set[str]:
    """Return the settings that have an effect in a strategy."""
    # Every ranged strategy limits the context by `max` if the model is long or the plan is gapless.
    uses_max = dimension == "prompt.context" and (limits.max_model_len >= LONG_MODEL_LEN or bool(limits.gapless))
    if strategy is Strategy.EXPONENTIAL:
        return {"max"} if uses_max else set()
    return _READ_BY.get(strategy, set())


_REFUSED = {
    KnobStatus.DEPRECATED: "is deprecated",
    KnobStatus.V0_ONLY: "is read only by the old V0 engine",
    KnobStatus.DEVELOPER: "is a switch for developers of the engine",
    KnobStatus.OWNED: "must not be set by users",
    KnobStatus.UNUSED: "has no effect here",
}

_UNSUPPORTED = {
    "KV transfer": "because replicas have no roles, and no Service or NetworkPolicy opens a port for KV data: remove "
    "this setting",
    "multi-model": "because only the plugin's own server reads this setting, and the runtime does not start that "
    "server: remove this setting, and create a GaudiInference for each model",
}
"""The reasons why knobs are unsupported, with the remedy, by group."""
_POOLING = "this release plans and warms up no shapes of pooling models"
_UNSUPPORTED_VALUES = {
    ("--distributed-executor-backend", "ray"): "this runtime starts the ranks of all pods itself, without Ray",
    ("--distributed-executor-backend", "external_launcher"): "vLLM then waits for ranks that no pod starts",
    ("--runner", "pooling"): _POOLING,
    ("--convert", "embed"): _POOLING,
    ("--convert", "classify"): _POOLING,
}
"""The reasons why values that vLLM knows are refused."""


def setting_errors(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield an error without a full stop for every wrong entry of engine.settings, sorted by name."""
    for name in sorted(settings):
        error = setting_error(name, settings[name])
        if error is not None:
            yield error


def setting_error(name: str, value: str) -> str | None:
    """Return the error of one entry of engine.settings; None if it is valid."""
    knob = knobs().get(name)
    if knob is None:
        return _unknown_name_error(name)
    if knob.home is not KnobHome.SETTINGS:
        return _why_not_settable(knob)
    try:
        to_engine_value_of_knob(knob, value)
    except ValueError as error:
        reason = _UNSUPPORTED_VALUES.get((name, value))
        return f"{name} is '{safe_excerpt(value)}'{f', but {reason}' if reason else ''}: give {error}"
    return None


def _why_not_settable(knob: Knob) -> str:
    """Return why a knob cannot be set in engine.settings: a field owns it, or users must not set it."""
    if knob.home is KnobHome.FIELD:
        owner_fields = " and ".join(f"spec.{path}" for path in knob.use)
        return f"{knob.name} cannot be set here: use {owner_fields} instead"
    if knob.status is KnobStatus.UNSUPPORTED:
        return f"{knob.name} is not supported, {_UNSUPPORTED[knob.group]}"
    return f"{knob.name} {_REFUSED[knob.status]} ({knob.meaning.rstrip('.')}): {_remedy(knob)}"


_CREDENTIAL = re.compile(r"(?:^|_)(?:TOKEN|PASSWORD|SECRET|API_KEY|ACCESS_KEY)$")


def variable_errors(variables: Mapping[str, str | None]) -> Iterator[str]:
    """Yield an error without a full stop for every variable of engine.env that is a knob or a credential in clear text.

    `variables` contains the values by name; None for a value from another object.
    """
    for name, value in variables.items():
        # The plan, the recipe key and the checks of values read engine.settings, so a knob in engine.env would bypass
        # them.
        if knob := knobs().get(name):
            yield _placement_error(knob)
        elif value and _CREDENTIAL.search(name):
            yield f"{name} is in clear text, so everyone who can read this resource can read it: use valueFrom"


_KNOB_PREFIXES = ("VLLM_", "PT_HPU_", "HABANA_")


def unknown_variable_errors(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence without a full stop for every variable that has a knob's prefix but is no knob."""
    for name in names:
        if name.startswith(_KNOB_PREFIXES) and name not in knobs():
            yield f"{name} is in no table of knobs, so it may have no effect: {_suggest_names(name)}"


def _remedy(knob: Knob) -> str:
    if not knob.use:
        return "remove this setting"
    replacement = knob.use[0]
    return f"use {replacement} instead" if replacement in knobs() else f"use the field spec.{replacement} instead"


# A word that begins with a dash is an argument. The exceptions are negative numbers and "-", which often means standard
# input.
_VALUE = re.compile(r"[^-]|-[0-9.]|-?$")
_ARGUMENT = re.compile(r"--[A-Za-z][-A-Za-z0-9_]*(\.[^=]+)?(=.*)?")


def argument_errors(arguments: Iterable[str]) -> Iterator[str]:
    """Yield an error without a full stop for every extra argument that is malformed or belongs in another place.

    A value follows "=" or is the next word, as on a command line.
    """
    # Accept arguments that are not in the table, because vLLM has hundreds of arguments and rejects unknown ones
    # itself.
    may_take_values = False
    for argument in arguments:
        if _VALUE.match(argument):
            if not may_take_values:
                yield f"{safe_excerpt(argument)} is not the value of an argument: write --name=value"
            continue
        error = _argument_error(argument)
        if error is not None:
            yield error
        may_take_values = "=" not in argument


def _argument_error(argument: str) -> str | None:
    if not _ARGUMENT.fullmatch(argument) or not argument.isprintable():
        return f"{safe_excerpt(argument)} is not a valid argument: write --name or --name=value with the long name"
    name = argument.partition("=")[0]
    knob = _arguments_by_name().get(_normalize_argument(name))
    if knob is not None:
        return _placement_error(knob)
    # argparse accepts every unambiguous prefix of an argument. `--max-model` would therefore set a knob that a field of
    # the spec owns.
    matching_knob = next(
        (knob for spelling, knob in _arguments_by_name().items() if spelling.startswith(_normalize_argument(name))),
        None,
    )
    if matching_knob is None:
        return None
    return f"{name} is short for {matching_knob.name}. {_placement_error(matching_knob)}"


def _placement_error(knob: Knob) -> str:
    return (
        f"{knob.name} must be set in spec.engine.settings"
        if knob.home is KnobHome.SETTINGS
        else _why_not_settable(knob)
    )


@cache
def _arguments_by_name() -> Mapping[str, Knob]:
    return {_normalize_argument(knob.name): knob for knob in knobs().values() if knob.kind is KnobKind.ARGUMENT}


def _normalize_argument(name: str) -> str:
    # vLLM accepts dashes and underscores as equal, the prefix --no- for a flag, and the name of a JSON entry after a
    # dot.
    return name.partition(".")[0].replace("_", "-").replace("--no-", "--", 1)


MOST_NAMED = 3
# The minimum similarity of two spellings, from 0 to 1 (difflib). Less similar names would not help the user.
LIKENESS = 0.7


def _unknown_name_error(name: str) -> str:
    """Return the error for an unknown knob, with the most similar names."""
    return (
        f"{safe_excerpt(name)} is not a knob of the engine, and {_suggest_names(name)} (the page Knobs lists all names)"
    )


def _suggest_names(name: str) -> str:
    similar_names = nearest_setting_names(name)
    if not similar_names:
        return "no known name is similar"
    names = ", ".join(map(_name_and_field, similar_names))
    return f"the nearest {'name is' if len(similar_names) == 1 else 'names are'} {names}"


def _name_and_field(name: str) -> str:
    """Return the name of a knob, followed by the field that sets it, if there is one."""
    knob = knobs()[name]
    return f"{name} (set by spec.{knob.use[0]})" if knob.home is KnobHome.FIELD else name


def nearest_setting_names(name: str) -> list[str]:
    """Return at most three knob names with a similar spelling. Dashes and case are ignored.

    The most similar names come first; names of rejected knobs come last.
    """
    by_spelling = {_normalize_spelling(knob_name): knob_name for knob_name in knobs()}
    # Search for twice as many names as are shown, because rejected knobs are sorted to the end and may be cut off.
    similar_spellings = get_close_matches(_normalize_spelling(name), by_spelling, n=2 * MOST_NAMED, cutoff=LIKENESS)
    similar_knobs = sorted(
        (knobs()[by_spelling[spelling]] for spelling in similar_spellings),
        key=lambda knob: knob.home is KnobHome.REFUSED,
    )
    return [knob.name for knob in similar_knobs][:MOST_NAMED]


def _normalize_spelling(name: str) -> str:
    return name.lstrip("-").replace("-", "_").upper()


def ignored_knobs(config: RuntimeConfig) -> Iterator[str]:
    """Yield a sentence without a full stop for every setting that has no effect.

    Wrong settings are skipped, because setting_errors() reports them.
    """
    for name in sorted(config.engine.settings):
        knob = knobs().get(name)
        if knob is not None and knob.home is KnobHome.SETTINGS:
            reason = _why_ignored(knob, config)
            if reason:
                yield f"engine.settings {name} is ignored{reason}"
    yield from _ignored_fields(config)


def _why_ignored(knob: Knob, config: RuntimeConfig) -> str | None:
    engine = config.engine
    if knob.reader not in active_knob_readers(engine):
        return f" by the {engine.name} engine on device {engine.device}"
    reason = unmet_knob_need(knob, config)
    return reason and f" by {reason}"


def _ignored_fields(config: RuntimeConfig) -> Iterator[str]:
    """Yield a sentence for each setting that is a field of the configuration, but is not used in it."""
    changed_fields = config.warmup.model_dump(exclude_defaults=True)
    for name, (_, field) in SETTING_FIELDS.items():
        reason = unmet_knob_need(knobs()[name], config)
        if reason and field in changed_fields:
            yield f"engine.settings {name} is ignored by {reason}"
