"""How a command ends that cannot do what it was asked: one sentence on standard error, exit code 1, as kubectl does."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from gaudi_operator.core.resource import SpecUnreadable
from gaudi_runtime.errors import RuntimeStartError


class Refused(Exception):
    """The command does not do it; the message is a sentence without its dot."""


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what went wrong into that sentence and that code."""
    try:
        yield
    except (Refused, RuntimeStartError, SpecUnreadable) as error:
        typer.echo(f"error: {_on_one_line(str(error)).rstrip('.')}.", err=True)
        raise typer.Exit(1) from error


def _on_one_line(text: str) -> str:
    """Texts of a cluster may hold line breaks, and orders to a terminal: they are shown, not sent."""
    return "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in text)
