"""How an answer is written: for people as a table, for programs as JSON, YAML or CSV, or as a picture."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from gaudi_runtime.errors import ConfigError


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


def _write_yaml(data: Mapping[str, Any]) -> None:
    import yaml

    # Through JSON, so that tuples and enumerations become what every YAML reader knows.
    plain = json.loads(json.dumps(data))
    typer.echo(yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=120), nl=False)


def _write_picture(picture: Callable[[], str] | None) -> None:
    if picture is None:
        raise ConfigError("this answer has no picture; choose table, json, yaml or csv")
    if sys.stdout.isatty():
        raise ConfigError("an SVG is not for a terminal; send it to a file with > plan.svg")
    sys.stdout.buffer.write(picture().encode())
