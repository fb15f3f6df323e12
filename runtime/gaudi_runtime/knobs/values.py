"""From what people write to the word that the engine reads, by the type and range of a knob."""

import json
import math
from collections.abc import Callable

from gaudi_runtime.knobs.knob import Knob, Type

YES = ("true", "t", "1", "yes", "y", "on")
NO = ("false", "f", "0", "no", "n", "off")
FLAG = "flag"
"""The range of an argument that is given or not, without a word."""
LARGEST = 2**63 - 1


def wire_value(knob: Knob, value: str) -> str:
    """The value as the engine reads it. Raises ValueError saying what the knob takes.

    Most knobs take a misspelled truth value for false without a word, so truth values are translated: "yes" becomes
    the knob's own "1" or "true".
    """
    return _READ[knob.type](knob, value)


def expectation(knob: Knob) -> str:
    """What the knob takes, in words."""
    match knob.type:
        case Type.BOOL:
            return "true or false"
        case Type.INT:
            return f"a whole number{_between(knob)}"
        case Type.FLOAT:
            return f"a number{_between(knob)}"
        case Type.ENUM:
            return f"one of {', '.join(knob.words)}" if len(knob.words) > 1 else f"{knob.words[0]}, or leave it out"
        case Type.PATH:
            return "an absolute path"
        case Type.JSON:
            return "a JSON object"
    return "text of one line"


def _between(knob: Knob) -> str:
    low, high = knob.bounds
    if low is None:
        return ""
    return f" of at least {low:g}" if high is None else f" from {low:g} to {high:g}"


def _bool(knob: Knob, value: str) -> str:
    word = value.lower()
    if word not in (*YES, *NO):
        raise _refusal(knob)
    if knob.range == FLAG:
        return "true" if word in YES else "false"
    return knob.words[0] if word in YES else knob.words[1]


def _int(knob: Knob, value: str) -> str:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise _refusal(knob)
    _check_bounds(knob, int(value))
    return str(int(value))


def _float(knob: Knob, value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        raise _refusal(knob) from None
    if not math.isfinite(number) or not value.isascii() or "_" in value:
        raise _refusal(knob)
    _check_bounds(knob, number)
    return value.strip()


def _check_bounds(knob: Knob, number: float) -> None:
    low, high = knob.bounds
    if (low is not None and number < low) or number > (LARGEST if high is None else high):
        raise _refusal(knob)


def _enum(knob: Knob, value: str) -> str:
    if value not in knob.words:
        raise _refusal(knob)
    return value


def _path(knob: Knob, value: str) -> str:
    if not value.startswith("/"):
        raise _refusal(knob)
    return _text(knob, value)


def _json(knob: Knob, value: str) -> str:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        raise _refusal(knob) from None
    if not isinstance(document, dict):
        raise _refusal(knob)
    return value


def _text(knob: Knob, value: str) -> str:
    if not value or not value.isprintable():
        raise _refusal(knob)
    return value


def _refusal(knob: Knob) -> ValueError:
    return ValueError(expectation(knob))


_READ: dict[Type, Callable[[Knob, str], str]] = {
    Type.BOOL: _bool,
    Type.INT: _int,
    Type.FLOAT: _float,
    Type.ENUM: _enum,
    Type.LIST: _text,
    Type.PATH: _path,
    Type.JSON: _json,
    Type.STRING: _text,
}
