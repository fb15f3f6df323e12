"""The output formats of `gaudi-plan`: tables for people, JSON, YAML or CSV for programs, or a picture."""

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
"""The maximum number of buckets in YAML, because the YAML writer takes kilobytes of memory per bucket."""


class OutputFormat(StrEnum):
    """The choices of the option --output of `gaudi-plan`: the format of the output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    SVG = "svg"


OutputOption = Annotated[OutputFormat, typer.Option("-o", "--output", help="Output format. Redirect svg to a file.")]


@dataclass(frozen=True)
class CommandOutput:
    """The output of a `gaudi-plan` command in all its formats. Only the requested format is computed.

    `data` is the JSON output, which includes the warnings. `rows` returns the rows of the CSV output with the header
    first. `show` prints the output for people. `picture` returns the text of an SVG file; `picture` is None if there is
    nothing to draw.
    """

    data: Mapping[str, Any]
    rows: Callable[[], Iterable[Sequence[object]]]
    show: Callable[[], None]
    picture: Callable[[], str] | None = None
    warnings: Sequence[str] = ()


def write_output(command_output: CommandOutput, output_format: OutputFormat) -> None:
    """Print the output of a `gaudi-plan` command. Warnings go to standard error unless the format includes them.

    Raises ConfigError if there is no picture, or if a picture would be printed on a terminal.
    """
    match output_format:
        case OutputFormat.JSON:
            typer.echo(json.dumps(command_output.data, separators=(",", ":")))
        case OutputFormat.YAML:
            _write_yaml(command_output.data)
        case OutputFormat.CSV:
            csv.writer(sys.stdout, lineterminator="\n").writerows(command_output.rows())
            print_output_warnings(command_output.warnings)
        case OutputFormat.SVG:
            _write_picture(command_output.picture)
            print_output_warnings(command_output.warnings)
        case OutputFormat.TABLE:
            command_output.show()
            print_output_warnings(command_output.warnings)


def print_output_warnings(warnings: Iterable[str]) -> None:
    """Print the warnings of a `gaudi-plan` command on standard error."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def output_console() -> "Console":
    """Return the console for the table output of `gaudi-plan`."""
    # Import rich in functions: the import takes 0.1 s, and JSON, YAML and CSV output does not need rich.
    from rich.console import Console

    return Console()


def output_table(
    rows: Iterable[Sequence[str]],
    text_columns: Sequence[str],
    number_columns: Sequence[str] = (),
    title: str | None = None,
    caption: str | None = None,
) -> object:
    """Return a table for the output of `gaudi-plan` with these text columns and number columns."""
    from rich.table import Table

    table = Table(*text_columns, title=title, caption=caption)
    for column in number_columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _write_yaml(data: Mapping[str, Any]) -> None:
    # Convert the data to JSON and back, so that tuples become lists and enumeration members become plain strings.
    json_data = json.loads(json.dumps(data))
    for name, value in json_data.items():
        if isinstance(value, list) and len(value) > YAML_AT_ONCE and all(isinstance(item, list) for item in value):
            typer.echo(f"{name}:")
            for start in range(0, len(value), YAML_AT_ONCE):
                typer.echo(_to_yaml(value[start : start + YAML_AT_ONCE]), nl=False)
        else:
            typer.echo(_to_yaml({name: value}), nl=False)


def _to_yaml(value: object) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=120)


def _write_picture(picture: Callable[[], str] | None) -> None:
    if picture is None:
        raise ConfigError("this command has no svg output. Choose table, json, yaml or csv")
    if sys.stdout.isatty():
        raise ConfigError("SVG output is not for a terminal. Redirect it to a file with > plan.svg")
    # SVG is UTF-8 in every locale. Write bytes, because text output would use the encoding of the locale.
    sys.stdout.buffer.write(picture().encode())
