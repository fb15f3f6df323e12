"""Reading a trace: a CSV of requests, one row at a time, so that its size does not matter (docs/traffic.md, Traces)."""

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import NamedTuple

from gaudi_runtime.errors import TraceUnreadable
from gaudi_runtime.traffic.columns import ColumnNames, Columns, find_columns

MAX_TOKENS = 16_777_216
MAX_LINE = 64 * 1024
FOUND_BY_NAME = ColumnNames()


class Request(NamedTuple):
    """One request: seconds on the trace's own clock, tokens of its prompt and of its answer."""

    arrival: float
    context: int
    generated: int


def read_trace(lines: Iterable[bytes], names: ColumnNames = FOUND_BY_NAME) -> Iterator[Request]:
    """The requests of a trace in its order; `lines` as a binary file gives them.

    Raises TraceUnreadable, a clause about the trace that names the line: not UTF-8, no header, a column that is
    missing, a row with too few cells, what is no number, a request without context tokens, or no request at all.
    """
    rows = csv.reader(_decoded(lines), strict=True)
    try:
        header = next(rows, None)
        if header is None:
            raise TraceUnreadable("is empty; its first line names the columns")
        columns = find_columns(header, names)
        empty = True
        for row in rows:
            if row:
                empty = False
                yield _request(row, columns, rows.line_num)
        if empty:
            raise TraceUnreadable("has a header but no requests")
    except csv.Error as error:
        raise _at(rows.line_num, f"is not CSV: {error}") from error


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise _at(number, f"is longer than {MAX_LINE} bytes")
        try:
            # Spreadsheets begin their exports with a byte order mark.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _at(number, f"is not UTF-8 text: {error.reason}") from error


def _request(row: list[str], columns: Columns, line: int) -> Request:
    if len(row) < columns.count:
        raise _at(line, f"has {len(row)} cells, the header has {columns.count}")
    context = _tokens(row[columns.context], line, "context")
    if context == 0:
        raise _at(line, "has 0 context tokens; a request has at least one")
    return Request(_seconds(row[columns.arrival], line), context, _tokens(row[columns.generated], line, "generated"))


def _tokens(cell: str, line: int, what: str) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 8 and int(text) <= MAX_TOKENS):
        raise _at(line, f"has {cell[:40]!r} {what} tokens, which is not a whole number from 0 to {MAX_TOKENS}")
    return int(text)


def _seconds(cell: str, line: int) -> float:
    """Seconds of a plain number, or of a date with time; without a zone it is taken as UTC, only differences count."""
    try:
        seconds = float(cell)
    except ValueError:
        try:
            moment = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise _at(line, f"has the arrival time {cell[:40]!r}, neither seconds nor a date with time") from None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not isfinite(seconds):
        raise _at(line, f"has the arrival time {cell[:40]!r}, which is not finite")
    return seconds


def _at(line: int, problem: str) -> TraceUnreadable:
    return TraceUnreadable(f"line {line} {problem}")
