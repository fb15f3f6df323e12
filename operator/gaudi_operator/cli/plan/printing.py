"""What every command prints in the same way."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer


def print_json(answer: Mapping[str, Any]) -> None:
    """One line of JSON on standard output."""
    typer.echo(json.dumps(answer, separators=(",", ":")))


def warn(warnings: Iterable[str]) -> None:
    """One line per warning on standard error."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
