"""A reader of traces: CSV files of requests, read row by row, so that a trace can have any size.

See docs/how-to/learn-buckets.md, Traces.

Columns are found by the usual names of public traces, or by names from the user. Requests are sorted by arrival. A
trace can be split in time: a plan is learned from the first half and scored on the second half.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush, heapreplace
from itertools import islice
from math import isfinite
from typing import NamedTuple

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
    """The column names from the user. A column whose name is None is found by its usual names."""

    arrival: str | None = None
    context: str | None = None
    generated: str | None = None


@dataclass(frozen=True)
class Columns:
    """The positions of arrival time, context tokens and generated tokens in a row of `cell_count` cells."""

    arrival: int
    context: int
    generated: int
    cell_count: int


FOUND_BY_NAME = ColumnNames()
MAX_TOKENS = 16_777_216
MAX_LINE = 64 * 1024


class Request(NamedTuple):
    """One request of a trace: its arrival in seconds on the trace's clock, its prompt tokens and its answer tokens."""

    arrival: float
    context_tokens: int
    generated_tokens: int


def read_trace(lines: Iterable[bytes], column_names: ColumnNames = FOUND_BY_NAME) -> Iterator[Request]:
    """Yield the requests of a CSV trace in file order.

    `lines` are lines of a binary file. Raises TraceUnreadable with a clause that names the line: not UTF-8, no header,
    a missing column, a row with too few cells, a wrong number, a request without context tokens, or no request at all.
    """
    rows = csv.reader(_decode_lines(lines), strict=True)
    try:
        header = next(rows, None)
        if header is None:
            raise TraceUnreadable("is empty, but the first line must name the columns")
        columns = find_columns(header, column_names)
        is_empty = True
        for row in rows:
            if row:
                is_empty = False
                yield _parse_request(row, columns, rows.line_num)
        if is_empty:
            raise TraceUnreadable("has a header but no requests")
    except csv.Error as error:
        raise _line_error(rows.line_num, f"is not valid CSV: {error}") from error


def _decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    for line_number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise _line_error(line_number, f"is longer than {MAX_LINE} bytes")
        try:
            # A file that a spreadsheet program exported may begin with a byte order mark.
            yield line.decode("utf-8-sig" if line_number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _line_error(line_number, f"is not UTF-8 text: {error.reason}") from error


def _parse_request(row: list[str], columns: Columns, line: int) -> Request:
    if len(row) < columns.cell_count:
        raise _line_error(line, f"has {len(row)} cells, but the header has {columns.cell_count}")
    context = _parse_tokens(row[columns.context], line, "context")
    if context == 0:
        raise _line_error(line, "has 0 context tokens, but a request needs at least 1")
    return Request(
        _parse_seconds(row[columns.arrival], line), context, _parse_tokens(row[columns.generated], line, "generated")
    )


def _parse_tokens(cell: str, line: int, name: str) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 8 and int(text) <= MAX_TOKENS):
        raise _line_error(line, f"has {cell[:40]!r} {name} tokens, but must have a whole number from 0 to {MAX_TOKENS}")
    return int(text)


def _parse_seconds(cell: str, line: int) -> float:
    """Return the seconds of a cell, which is a number or a date with time."""
    try:
        seconds = float(cell)
    except ValueError:
        try:
            moment = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise _line_error(
                line, f"has the arrival time {cell[:40]!r}, which is neither seconds nor a date with time"
            ) from None
        # A time without a time zone is read as UTC. The zone does not matter, because only differences are used.
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not isfinite(seconds):
        raise _line_error(line, f"has the arrival time {cell[:40]!r}, which is not a finite number")
    return seconds


def _line_error(line: int, problem: str) -> TraceUnreadable:
    return TraceUnreadable(f"line {line} {problem}")


def find_columns(header: Sequence[str], names: ColumnNames) -> Columns:
    """Find the columns in a trace's header. Raises TraceUnreadable with the missing and the existing columns."""
    return Columns(
        arrival=_find_column(header, names.arrival, ARRIVAL, "the arrival time", "--arrival-column"),
        context=_find_column(header, names.context, CONTEXT, "the context tokens", "--context-column"),
        generated=_find_column(header, names.generated, GENERATED, "the generated tokens", "--generated-column"),
        cell_count=len(header),
    )


def _find_column(
    header: Sequence[str], column_name: str | None, usual_names: Sequence[str], description: str, flag: str
) -> int:
    normalized = [_normalize_name(cell) for cell in header]
    for name in [_normalize_name(column_name)] if column_name is not None else usual_names:
        if name in normalized:
            return normalized.index(name)
    problem = f"has no column {column_name!r}" if column_name is not None else f"has no column for {description}"
    existing = ", ".join(cell[:40] for cell in header[:20])
    raise TraceUnreadable(f"{problem}. Choose one of its columns with {flag}: {existing}")


def _normalize_name(name: str) -> str:
    """Return a column name in lower case, without spaces and punctuation: ContextTokens equals Context_Tokens."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


# The most requests in the sort buffer. A trace with fewer requests may be in any order.
WINDOW = 100_000


def sort_by_arrival(requests: Iterable[Request], window: int = WINDOW) -> Iterator[Request]:
    """Yield the requests of a trace in order of arrival.

    Raises TraceUnreadable if a request is more than `window` rows too late in the file.
    """
    # Logs are often sorted by completion time, so requests with long answers come late.
    buffer: list[Request] = []
    last_arrival = -float("inf")
    for request in requests:
        if len(buffer) < window:
            heappush(buffer, request)
            continue
        if request.arrival < last_arrival:
            raise TraceUnreadable(f"has a request more than {window} rows too late. Sort the requests by arrival")
        earliest = heapreplace(buffer, request) if buffer[0] <= request else request
        last_arrival = earliest.arrival
        yield earliest
    while buffer:
        yield heappop(buffer)


def count_requests(requests: Iterable[Request]) -> int:
    """Return the number of requests in a trace. Raises TraceUnreadable for fewer than two."""
    # A trace may be larger than the memory, so the trace is read once to count its requests and a second time to split
    # them into halves.
    count = sum(1 for _ in requests)
    if count < 2:
        raise TraceUnreadable("has only 1 request, but at least 2 are needed to learn from one half")
    return count


def take_first_half(requests: Iterator[Request], count: int) -> Iterator[Request]:
    """Yield the earlier half of `count` requests of a trace, rounded down.

    The iterator `requests` then continues with the later half.
    """
    return islice(requests, count // 2)
