"""How an answer is written: for people as a table, for programs as JSON, YAML or CSV, or as a picture."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

YAML_AT_ONCE = 5000
"""Buckets: its writer makes a tree of all that it is given, of kilobytes for each."""


class Output(StrEnum):
    """How answers are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    SVG = "svg"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="How the answer is written; svg to a file: > F.")]


@dataclass(frozen=True)
class Answer:
    """An answer in all its forms; only the one that is asked for is made.

    `data` is JSON with its warnings inside; `rows` gives CSV with the header first; `show` prints for people;
    `picture` gives the text of an SVG, None where there is nothing to draw.
    """

    data: Mapping[str, Any]
    rows: Callable[[], Iterable[Sequence[object]]]
    show: Callable[[], None]
    picture: Callable[[], str] | None = None
    warnings: Sequence[str] = ()


def write(answer: Answer, output: Output) -> None:
    """Print the answer on standard output, its warnings on standard error unless they are part of it.

    Raises ConfigError for a picture that does not exist or would land on a terminal.
    """
    match output:
        case Output.JSON:
            typer.echo(json.dumps(answer.data, separators=(",", ":")))
        case Output.YAML:
            _write_yaml(answer.data)
        case Output.CSV:
            csv.writer(sys.stdout, lineterminator="\n").writerows(answer.rows())
            warn(answer.warnings)
        case Output.SVG:
            _write_picture(answer.picture)
            warn(answer.warnings)
        case Output.TABLE:
            answer.show()
            warn(answer.warnings)


def warn(warnings: Iterable[str]) -> None:
    """Say warnings on standard error."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def stdout() -> "Console":
    """Where people read."""
    # Imported in functions, here and below: rich takes a tenth of a second, which programs should not pay for.
    from rich.console import Console

    return Console()


def table(
    rows: Iterable[Sequence[str]],
    left: Sequence[str],
    right: Sequence[str] = (),
    title: str | None = None,
    caption: str | None = None,
) -> object:
    """A table for people: the columns `left` hold words, those `right` of them numbers."""
    from rich.table import Table

    made = Table(*left, title=title, caption=caption)
    for column in right:
        made.add_column(column, justify="right")
    for row in rows:
        made.add_row(*row)
    return made


def _write_yaml(data: Mapping[str, Any]) -> None:
    # Through JSON, so that tuples and enumerations become what every YAML reader knows.
    plain = json.loads(json.dumps(data))
    for name, value in plain.items():
        if isinstance(value, list) and len(value) > YAML_AT_ONCE and all(isinstance(each, list) for each in value):
            typer.echo(f"{name}:")
            for start in range(0, len(value), YAML_AT_ONCE):
                typer.echo(_yaml(value[start : start + YAML_AT_ONCE]), nl=False)
        else:
            typer.echo(_yaml({name: value}), nl=False)


def _yaml(value: object) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=120)


def _write_picture(picture: Callable[[], str] | None) -> None:
    if picture is None:
        raise ConfigError("this answer has no picture; choose table, json, yaml or csv")
    if sys.stdout.isatty():
        raise ConfigError("an SVG is not for a terminal; send it to a file with > plan.svg")
    # Bytes: a picture is UTF-8, whatever the locale says.
    sys.stdout.buffer.write(picture().encode())
