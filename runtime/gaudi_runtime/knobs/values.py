"""The conversion of a user's values of knobs to the words that the engine reads, by type and range."""

import json
import math
from collections.abc import Callable

from gaudi_runtime.knobs.table import Knob, KnobType

YES = ("true", "t", "1", "yes", "y", "on")
NO = ("false", "f", "0", "no", "n", "off")
FLAG = "flag"
"""The range of a flag, an argument without a value."""
LARGEST = 2**63 - 1


def to_engine_value(knob: Knob, value: str) -> str:
    """Convert a user's value of a knob to the word that the engine reads. Raises ValueError for an invalid value."""
    word = _READ[knob.type](knob, value)
    if word is None:
        raise ValueError(describe_valid_values(knob))
    return word


def describe_valid_values(knob: Knob) -> str:
    """Return a description of the valid values of a knob, by its type and range."""
    match knob.type:
        case KnobType.BOOL:
            return "true or false"
        case KnobType.INT:
            return f"a whole number{_describe_bounds(knob)}"
        case KnobType.FLOAT:
            return f"a number{_describe_bounds(knob)}"
        case KnobType.ENUM:
            return (
                f"one of {', '.join(knob.choices)}"
                if len(knob.choices) > 1
                else f"{knob.choices[0]}, or remove the setting"
            )
        case KnobType.LIST if len(knob.choices) > 1:
            return f"one or more of {', '.join(knob.choices)}, with commas between them"
        case KnobType.PATH:
            return "an absolute path"
        case KnobType.JSON:
            return "a JSON object"
    return "text of one line"


def _describe_bounds(knob: Knob) -> str:
    low, high = knob.bounds
    if low is None:
        return ""
    return f" of at least {low:g}" if high is None else f" from {low:g} to {high:g}"


def _convert_bool(knob: Knob, value: str) -> str | None:
    # Translate "yes" into the knob's own "1" or "true", because most knobs silently read an unknown word as false.
    word = value.lower()
    if word not in (*YES, *NO):
        return None
    yes, no = ("true", "false") if knob.range == FLAG else knob.choices
    return yes if word in YES else no


def _convert_int(knob: Knob, value: str) -> str | None:
    digits = value.removeprefix("-")
    # Accept fewer than 20 digits, because int() raises a different error for numbers with thousands of digits.
    is_integer = digits.isascii() and digits.isdecimal() and len(digits) < 20
    return str(int(value)) if is_integer and _within_bounds(knob, int(value)) else None


def _convert_float(knob: Knob, value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return None
    # float() accepts "1_000" and digits of other scripts, which the engine may not accept.
    is_plain_decimal = math.isfinite(number) and value.isascii() and "_" not in value
    return value.strip() if is_plain_decimal and _within_bounds(knob, number) else None


def _within_bounds(knob: Knob, number: float) -> bool:
    low, high = knob.bounds
    return (low is None or number >= low) and number <= (LARGEST if high is None else high)


def _convert_json(knob: Knob, value: str) -> str | None:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(document, dict) else None


def _convert_text(knob: Knob, value: str) -> str | None:
    return value if value and value.isprintable() else None


def _convert_list(knob: Knob, value: str) -> str | None:
    if len(knob.choices) == 1:
        return _convert_text(knob, value)
    # Remove spaces, because the plugin reads a space as part of the word.
    parts = [part.strip() for part in value.split(",")]
    return ",".join(parts) if set(parts) <= set(knob.choices) else None


_READ: dict[KnobType, Callable[[Knob, str], str | None]] = {
    KnobType.BOOL: _convert_bool,
    KnobType.INT: _convert_int,
    KnobType.FLOAT: _convert_float,
    KnobType.ENUM: lambda knob, value: value if value in knob.choices else None,
    KnobType.LIST: _convert_list,
    KnobType.PATH: lambda knob, value: _convert_text(knob, value) if value.startswith("/") else None,
    KnobType.JSON: _convert_json,
    KnobType.STRING: _convert_text,
}
