"""Options that several commands share, and how a command ends when its question is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gaudi_runtime.errors import RuntimeStartError


class Output(StrEnum):
    """How answers are written."""

    JSON = "json"
    TABLE = "table"


Document = Annotated[
    Path, typer.Option("-f", "--file", help="RuntimeConfig or bare limits, JSON or YAML; - reads standard input.")
]
BucketFile = Annotated[Path | None, typer.Option(help="Take the buckets from this file (strategy file).")]
KvBlocks = Annotated[int | None, typer.Option(min=1, help="KV blocks that exist on the device.")]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="json or table.")]


@contextmanager
def one_sentence() -> Iterator[None]:
    """A bad document or an impossible plan ends with one sentence on standard error and exit code 2."""
    try:
        yield
    except RuntimeStartError as error:
        typer.echo(f"gaudi-plan: {error}.", err=True)
        raise typer.Exit(2) from error
