"""What is wrong with a setting: one sentence per wrong one, each with what to do (docs/knobs.md, Refusals)."""

from collections.abc import Iterable, Iterator, Mapping

from gaudi_runtime.knobs.knob import ENGINE, Home, Knob, Status
from gaudi_runtime.knobs.nearest import unknown_name
from gaudi_runtime.knobs.table import knobs
from gaudi_runtime.knobs.values import wire_value

_REFUSED = {
    Status.DEPRECATED: "is deprecated",
    Status.V0_ONLY: "is read only by the old engine",
    Status.DEVELOPER: "is a switch for developers of the engine",
    Status.OWNED: "is not for users",
}
LONGEST_QUOTE = 40


def wrong_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """A sentence, without a final stop, for every wrong entry of engine.settings, in the order of the names."""
    for name in sorted(settings):
        sentence = wrong_setting(name, settings[name])
        if sentence is not None:
            yield sentence


def wrong_setting(name: str, value: str) -> str | None:
    """What is wrong with one entry of engine.settings; None when it can be passed on."""
    knob = knobs().get(name)
    if knob is None:
        return unknown_name(name)
    if knob.home is not Home.SETTINGS:
        return why_not(knob)
    try:
        wire_value(knob, value)
    except ValueError as error:
        return f"{name} is {_quoted(value)}: give {error}"
    return None


def why_not(knob: Knob) -> str:
    """Why a knob is not set through the map: a field owns it, or nobody should set it."""
    if knob.home is Home.FIELD:
        return f"{knob.name} is set by {fields(knob)}: use that instead"
    return f"{knob.name} {_REFUSED[knob.status]} ({knob.meaning.rstrip('.')}): {_instead(knob)}"


def fields(knob: Knob) -> str:
    """The fields that own a knob, as people write them."""
    return " and ".join(f"spec.{path}" for path in knob.use)


def wrong_variables(names: Iterable[str]) -> Iterator[str]:
    """A sentence for every name in engine.env that a field already gives the engine: two values would contradict."""
    for name in names:
        knob = knobs().get(name)
        if knob is not None and knob.home is Home.FIELD and knob.reader in ENGINE:
            yield why_not(knob)


def _instead(knob: Knob) -> str:
    if not knob.use:
        return "leave it out"
    named = knob.use[0]
    return f"use {named} instead" if named in knobs() else f"use the field spec.{named} instead"


def _quoted(value: str) -> str:
    """A value of somebody else's, short enough to stand in a sentence."""
    return repr(value if len(value) <= LONGEST_QUOTE else value[: LONGEST_QUOTE - 3] + "...")
