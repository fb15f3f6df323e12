"""The doctor's rows for people and for machines."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.judgement import healthy
from gaudi_runtime.doctor.row import Row, State

_STYLES = {State.OK: "green", State.WARNING: "yellow", State.FAIL: "bold red"}


def print_table(rows: Sequence[Row], engines: frozenset[EngineName], console: Console) -> None:
    """One row a topic, with what to do where something is not right, and the verdict below."""
    table = Table("", "topic", "found and to do", box=None, pad_edge=False)
    for row in rows:
        table.add_row(f"[{_STYLES[row.state]}]{row.state}", row.topic, _cell(row))
    console.print(table)
    names = ", ".join(sorted(engines))
    console.print(
        f"Engine {names}: everything needed is here." if healthy(rows) else f"Engine {names}: not usable here."
    )


def as_json(rows: Sequence[Row], engines: frozenset[EngineName]) -> str:
    """`healthy`, `engines` and `rows` with topic, state, found, advice and neededBy."""
    data: dict[str, Any] = {"healthy": healthy(rows), "engines": sorted(engines)}
    return json.dumps({**data, "rows": [_wire(row) for row in rows]}, indent=2)


def _cell(row: Row) -> str:
    return f"{row.found}\n[dim]{row.advice}[/dim]" if row.advice else row.found


def _wire(row: Row) -> dict[str, Any]:
    fields = asdict(row)
    needed_by = sorted(fields.pop("needed_by"))
    return {**fields, "neededBy": needed_by}
