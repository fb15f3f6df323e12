"""Which columns of a trace hold what: by name as public traces write them, or as the user says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gaudi_runtime.errors import TraceUnreadable

ARRIVAL = ("timestamp", "arrivaltime", "arrivaltimestamp", "arrivedat", "arrival", "time")
CONTEXT = (
    "contexttokens",
    "prompttokens",
    "inputtokens",
    "requesttokens",
    "numprefilltokens",
    "inputlength",
    "promptlength",
    "promptlen",
    "inputlen",
)
GENERATED = (
    "generatedtokens",
    "completiontokens",
    "outputtokens",
    "responsetokens",
    "numdecodetokens",
    "outputlength",
    "completionlength",
    "outputlen",
)


@dataclass(frozen=True)
class ColumnNames:
    """Names that the user gave; None is looked for."""

    arrival: str | None = None
    context: str | None = None
    generated: str | None = None


@dataclass(frozen=True)
class Columns:
    """Positions of arrival time, context tokens and generated tokens in a row of `count` cells."""

    arrival: int
    context: int
    generated: int
    count: int


def find_columns(header: Sequence[str], names: ColumnNames) -> Columns:
    """The columns of a header. Raises TraceUnreadable that names what is missing and what is there."""
    return Columns(
        arrival=_find(header, names.arrival, ARRIVAL, "the arrival time", "--arrival-column"),
        context=_find(header, names.context, CONTEXT, "the context tokens", "--context-column"),
        generated=_find(header, names.generated, GENERATED, "the generated tokens", "--generated-column"),
        count=len(header),
    )


def _find(header: Sequence[str], given: str | None, known: Sequence[str], what: str, flag: str) -> int:
    plain = [_plain(each) for each in header]
    for name in [_plain(given)] if given is not None else known:
        if name in plain:
            return plain.index(name)
    missing = f"has no column {given!r}" if given is not None else f"has no column for {what}"
    there = ", ".join(cell[:40] for cell in header[:20])
    raise TraceUnreadable(f"{missing}; its columns are {there}: name one with {flag}")


def _plain(name: str) -> str:
    """Without case, spaces and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
