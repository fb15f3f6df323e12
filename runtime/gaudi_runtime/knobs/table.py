"""The table of all knobs of the engine (docs/reference/knobs.md), read from table.csv in this folder.

Names, defaults and ranges come from vLLM 0.26 and 0.30, from vllm-gaudi (main, August 2026) and from the reference
logs. The descriptions are written for this project. Arguments are the arguments of the supported releases
(catalog/release_pairs.py). A test compares the table, the fields of the API and the page docs/reference/knobs.md.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from gaudi_runtime.contract.base import spec_spelling
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


class PlanEffect(StrEnum):
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
    plan_effects: tuple[PlanEffect, ...]
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
        plan_effects=tuple(map(PlanEffect, row["plan"].split())),
        meaning=row["meaning"],
        sources=tuple(row["sources"].split()),
    )


def _parse_needs(text: str) -> dict[str, tuple[str, ...]]:
    pairs = (need.partition("=") for need in text.split())
    return {key: tuple(values.split(",")) for key, _, values in pairs}


def active_readers(engine: EngineConfig) -> frozenset[KnobReader]:
    """Return the programs that read knobs in a process of this engine; empty for the simulation."""
    if engine.name is EngineName.SIM:
        return frozenset()
    card = {KnobReader.DEVICE, KnobReader.PLUGIN} if engine.device == "hpu" else set()
    return frozenset({KnobReader.PROCESS, KnobReader.VLLM} | card)


_WHO = {"strategy": "the {} strategy", "mode": "execution mode {}", "device": "device {}"}


def unmet_need(knob: Knob, config: RuntimeConfig) -> str | None:
    """Return why this configuration ignores the knob, by the column `needs`; None if it does not."""
    engine = config.engine
    actual = {"strategy": config.bucketing.strategy, "mode": engine.execution_mode, "device": engine.device}
    for key, needed in knob.needs.items():
        if actual[key] not in needed:
            return (
                f"{_WHO[key].format(format_values(key, actual[key]))}: this setting needs {format_values(key, *needed)}"
            )
    return None


def format_values(key: str, *words: str) -> str:
    """Return values of the column `needs` in the spelling of a GaudiInference, joined by "or"."""
    return " or ".join(words if key == "device" else map(spec_spelling, words))
