"""One knob of the engine, as a row of table.csv says it (docs/knobs.md)."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How the engine is told."""

    VARIABLE = "env"
    ARGUMENT = "arg"


class Type(StrEnum):
    """What a value is."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    ENUM = "enum"
    LIST = "list"
    PATH = "path"
    JSON = "json"
    STRING = "string"


class Status(StrEnum):
    """What the engine's own documentation and code say of it; `owned` is what only this project may decide."""

    CURRENT = "current"
    DEPRECATED = "deprecated"
    V0_ONLY = "v0-only"
    DEVELOPER = "developer"
    OWNED = "owned"


class Home(StrEnum):
    """Where people say it: in a typed field, in the map engine.settings, or nowhere."""

    FIELD = "field"
    SETTINGS = "settings"
    REFUSED = "refused"


class Reader(StrEnum):
    """Who acts on it; the last three are no part of a server that this project starts."""

    VLLM = "vllm"
    PLUGIN = "plugin"
    DEVICE = "device"
    PROCESS = "process"
    RUNTIME = "runtime"
    LAUNCHER = "launcher"
    BENCHMARK = "benchmark"
    INSTALLATION = "installation"


class Plan(StrEnum):
    """What a knob does to the bucket plan."""

    BUCKETS = "buckets"
    BLOCKS = "blocks"
    GRAPHS = "graphs"
    MISSING = "missing"


ENGINE = (Reader.VLLM, Reader.PLUGIN, Reader.DEVICE, Reader.PROCESS)
"""Readers inside a server: what they read, the renderer tells them."""


@dataclass(frozen=True)
class Knob:
    """A row: `use` are the fields that own the knob, or what takes its place.

    `range` are the words of a bool or an enum, the bounds of a number ("1..", "0..50"), otherwise a remark.
    `needs` says under which strategies, modes and devices it has an effect: {"strategy": ("linear", "paddingAware")}.
    """

    name: str
    kind: Kind
    type: Type
    range: str
    default: str
    group: str
    status: Status
    home: Home
    use: tuple[str, ...]
    reader: Reader | None
    needs: dict[str, tuple[str, ...]]
    plan: tuple[Plan, ...]
    meaning: str
    sources: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of an enum, or those of a bool for yes and no."""
        return tuple(self.range.split("|"))

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Least and largest number, None where there is no such bound."""
        low, _, high = self.range.partition("..")
        return _number(low), _number(high)


def _number(text: str) -> float | None:
    return float(text) if text.lstrip("-").isdigit() else None
