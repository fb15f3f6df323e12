"""The table of all knobs of the engine (table.csv, docs/reference/knobs.md), and the conversion of their values.

Names, defaults and ranges come from vLLM 0.26 and 0.30, from vllm-gaudi (main, August 2026) and from the reference
logs. The descriptions are written for this project. Arguments are the arguments of the supported releases
(catalog/release_pairs.py). A test compares the table, the fields of the API and the page docs/reference/knobs.md.

Values of a user are converted to the words that the engine reads, by type and range.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.config import EngineConfig, EngineName, RuntimeConfig


class KnobKind(StrEnum):
    """The column `kind` of the table of knobs: whether a knob is an environment variable or an argument."""

    VARIABLE = "env"
    ARGUMENT = "arg"


class KnobType(StrEnum):
    """The column `type` of the table of knobs: the type of the knob's value."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    ENUM = "enum"
    LIST = "list"
    PATH = "path"
    JSON = "json"
    STRING = "string"


class KnobStatus(StrEnum):
    """The column `status` of the table of knobs: the status in the engine's documentation and code.

    Only this project may set an `owned` knob. An `unsupported` knob cannot work in the pods of this project, and
    nothing in them reads an `unused` knob.
    """

    CURRENT = "current"
    DEPRECATED = "deprecated"
    V0_ONLY = "v0-only"
    DEVELOPER = "developer"
    OWNED = "owned"
    UNSUPPORTED = "unsupported"
    UNUSED = "unused"


class KnobHome(StrEnum):
    """The column `home` of the table of knobs: users set the knob in a field, in engine.settings, or cannot set it."""

    FIELD = "field"
    SETTINGS = "settings"
    REFUSED = "refused"


class KnobReader(StrEnum):
    """The column `reader` of the table of knobs: the program that reads the knob.

    The launcher of the ready-made image is not part of a server of this project.
    """

    VLLM = "vllm"
    PLUGIN = "plugin"
    DEVICE = "device"
    PROCESS = "process"
    RUNTIME = "runtime"
    LAUNCHER = "launcher"


class KnobPlanEffect(StrEnum):
    """The column `plan` of the table of knobs: the effect of a knob on the bucket plan."""

    BUCKETS = "buckets"
    BLOCKS = "blocks"
    GRAPHS = "graphs"
    MISSING = "missing"


ENGINE = (KnobReader.VLLM, KnobReader.PLUGIN, KnobReader.DEVICE, KnobReader.PROCESS)
"""The readers inside a server, for which knobs are rendered."""


@dataclass(frozen=True)
class Knob:
    """A row of the table of knobs. `use` names the fields that own the knob, or the replacement of the knob.

    `range` contains the words of a bool or an enum, the bounds of a number ("1..", "0..50"), or a remark. `needs`
    contains the strategies, modes and devices for which the knob has an effect: {"strategy": ("linear",
    "paddingAware")}.
    """

    name: str
    kind: KnobKind
    type: KnobType
    range: str
    default: str
    group: str
    status: KnobStatus
    home: KnobHome
    use: tuple[str, ...]
    reader: KnobReader | None
    needs: dict[str, tuple[str, ...]]
    plan_effects: tuple[KnobPlanEffect, ...]
    meaning: str
    sources: tuple[str, ...]

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words of an enum or a list. For a bool, the words for yes and no."""
        return tuple(self.range.split("|"))

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The smallest and the largest allowed number; None if there is no such limit."""
        low, _, high = self.range.partition("..")
        return _parse_bound(low), _parse_bound(high)


def _parse_bound(text: str) -> float | None:
    return float(text) if text.lstrip("-").isdigit() else None


@cache
def knobs() -> Mapping[str, Knob]:
    """Return all knobs by name, in the order of the table."""
    text = files(__package__).joinpath("table.csv").read_text(encoding="utf-8")
    return MappingProxyType({row["name"]: _parse_row(row) for row in csv.DictReader(text.splitlines())})


def _parse_row(row: dict[str, str]) -> Knob:
    return Knob(
        name=row["name"],
        kind=KnobKind(row["kind"]),
        type=KnobType(row["type"]),
        range=row["range"],
        default=row["default"],
        group=row["group"],
        status=KnobStatus(row["status"]),
        home=KnobHome(row["home"]),
        use=tuple(row["use"].split()),
        reader=KnobReader(row["reader"]) if row["reader"] else None,
        needs=_parse_needs(row["needs"]),
        plan_effects=tuple(map(KnobPlanEffect, row["plan"].split())),
        meaning=row["meaning"],
        sources=tuple(row["sources"].split()),
    )


def _parse_needs(text: str) -> dict[str, tuple[str, ...]]:
    pairs = (need.partition("=") for need in text.split())
    return {key: tuple(values.split(",")) for key, _, values in pairs}


def active_knob_readers(engine: EngineConfig) -> frozenset[KnobReader]:
    """Return the programs that read knobs in a process of this engine; empty for the simulation."""
    if engine.name is EngineName.SIM:
        return frozenset()
    card = {KnobReader.DEVICE, KnobReader.PLUGIN} if engine.device == "hpu" else set()
    return frozenset({KnobReader.PROCESS, KnobReader.VLLM} | card)


_WHO = {"strategy": "the {} strategy", "mode": "execution mode {}", "device": "device {}"}


def unmet_knob_need(knob: Knob, config: RuntimeConfig) -> str | None:
    """Return why this configuration ignores the knob, by the column `needs`; None if it does not."""
    engine = config.engine
    actual = {"strategy": config.bucketing.strategy, "mode": engine.execution_mode, "device": engine.device}
    for key, needed in knob.needs.items():
        if actual[key] not in needed:
            who = _WHO[key].format(format_knob_values(key, actual[key]))
            return f"{who}: this setting needs {format_knob_values(key, *needed)}"
    return None


def format_knob_values(key: str, *words: str) -> str:
    """Return values of the column `needs` in the spelling of a GaudiInference, joined by "or"."""
    return " or ".join(words if key == "device" else map(capitalize_contract_word, words))


YES = ("true", "t", "1", "yes", "y", "on")
NO = ("false", "f", "0", "no", "n", "off")
FLAG = "flag"
"""The range of a flag, an argument without a value."""
LARGEST = 2**63 - 1


def to_engine_value_of_knob(knob: Knob, value: str) -> str:
    """Convert a user's value of a knob to the word that the engine reads. Raises ValueError for an invalid value."""
    word = _READ[knob.type](knob, value)
    if word is None:
        raise ValueError(_describe_valid_values(knob))
    return word


def _describe_valid_values(knob: Knob) -> str:
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
