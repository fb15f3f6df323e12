"""The table of all knobs, read once from table.csv beside this module.

Names, defaults and ranges are facts of vLLM 0.32, of vllm-gaudi (main, August 2026) and of the seeds; the words are
ours. A test holds the table, the fields of the API and the page docs/knobs.md together.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from gaudi_runtime.knobs.knob import Home, Kind, Knob, Plan, Reader, Status, Type


@cache
def knobs() -> Mapping[str, Knob]:
    """Every knob by its name, in the table's order."""
    text = files(__package__).joinpath("table.csv").read_text(encoding="utf-8")
    return MappingProxyType({row["name"]: _knob(row) for row in csv.DictReader(text.splitlines())})


def _knob(row: dict[str, str]) -> Knob:
    return Knob(
        name=row["name"],
        kind=Kind(row["kind"]),
        type=Type(row["type"]),
        range=row["range"],
        default=row["default"],
        group=row["group"],
        status=Status(row["status"]),
        home=Home(row["home"]),
        use=tuple(row["use"].split()),
        reader=Reader(row["reader"]) if row["reader"] else None,
        needs=_needs(row["needs"]),
        plan=tuple(map(Plan, row["plan"].split())),
        meaning=row["meaning"],
        sources=tuple(row["sources"].split()),
    )


def _needs(text: str) -> dict[str, tuple[str, ...]]:
    pairs = (each.partition("=") for each in text.split())
    return {key: tuple(values.split(",")) for key, _, values in pairs}
