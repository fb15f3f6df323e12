"""Reading a trace of requests from a CSV file: columns, timestamps, order, and refusals of bad lines."""

import tracemalloc
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import TraceUnreadable
from gaudi_runtime.traffic.batching import read_traffic_of_trace
from gaudi_runtime.traffic.trace import (
    WINDOW,
    ColumnNames,
    Request,
    count_requests,
    read_trace,
    sort_by_arrival,
    take_first_half,
)

HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
LIMITS = Limits(max_model_len=4096, max_num_seqs=8, max_num_batched_tokens=4096)


def read(text: bytes, names: ColumnNames | None = None) -> list[Request]:
    return list(read_trace(text.splitlines(keepends=True), names or ColumnNames()))


def test_azure_row_is_read_with_seven_decimals() -> None:
    rows = read(HEADER + b"2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n")
    assert [(request.context_tokens, request.generated_tokens) for request in rows] == [(374, 44), (396, 109)]
    assert rows[1].arrival - rows[0].arrival == pytest.approx(4.314579, abs=1e-5)


def test_timestamps_with_time_zones_are_converted() -> None:
    rows = read(HEADER + b"2024-05-10 02:00:00+02:00,1,1\n2024-05-10 00:00:01+00:00,1,1\n")
    assert rows[1].arrival - rows[0].arrival == 1


@pytest.mark.parametrize(
    "header",
    [
        b"Timestamp,Request tokens,Response tokens",
        b"arrival_time,prompt_len,output_len",
        b"model,arrived_at,num_prefill_tokens,num_decode_tokens",
    ],
)
def test_columns_are_found_under_the_names_of_other_public_traces(header: bytes) -> None:
    cells = {b"arri": b"7.5", b"time": b"7.5", b"requ": b"3", b"prom": b"3", b"resp": b"2", b"outp": b"2"}
    cells |= {b"num_prefill_tokens": b"3", b"num_decode_tokens": b"2", b"mode": b"m"}
    row = b",".join(cells.get(name, cells.get(name[:4].lower(), b"")) for name in header.split(b","))
    assert read(header + b"\n" + row + b"\n") == [Request(7.5, 3, 2)]


def test_columns_are_read_by_configured_names() -> None:
    names = ColumnNames(arrival="when", context="in", generated="out")
    assert read(b"out,in,when\n5,9,1\n", names) == [Request(1.0, 9, 5)]


def test_byte_order_mark_is_not_part_of_the_name() -> None:
    assert read(b"\xef\xbb\xbf" + HEADER + b"1,2,3\n") == [Request(1.0, 2, 3)]


def test_request_without_generated_tokens_is_read() -> None:
    assert read(HEADER + b"1,5,0\n") == [Request(1.0, 5, 0)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "is empty, but the first line must name the columns"),
        (HEADER, "has a header but no requests"),
        (
            b"ContextTokens,GeneratedTokens\n1,2\n",
            "has no column for the arrival time. Choose one of its columns with --arrival-column: ContextTokens",
        ),
        (b"TIMESTAMP,GeneratedTokens\n1,2\n", "Choose one of its columns with --context-column"),
        (b"TIMESTAMP,ContextTokens\n1,2\n", "has no column for the generated tokens"),
        (HEADER + b"1,0,5\n", "line 2 has 0 context tokens, but a request needs at least 1"),
        (HEADER + b"1,5,5\n1,five,5\n", "line 3 has 'five' context tokens, but must have a whole number"),
        (HEADER + b"1,-5,5\n", "line 2 has '-5' context tokens"),
        (HEADER + b"1,5.5,5\n", "line 2 has '5.5' context tokens"),
        (HEADER + b"1,5,nan\n", "line 2 has 'nan' generated tokens"),
        (HEADER + b"1,999999999,5\n", "line 2 has '999999999' context tokens"),
        (HEADER + b"nan,5,5\n", "line 2 has the arrival time 'nan', which is not a finite number"),
        (HEADER + b"soon,5,5\n", "line 2 has the arrival time 'soon', which is neither seconds nor a date with time"),
        (HEADER + b"1,5\n", "line 2 has 2 cells, but the header has 3"),
        (HEADER + b"1,5,5\n\xff\xfe,5,5\n", "line 3 is not UTF-8 text: invalid start byte"),
        (HEADER + b'1,"5,5\n', "line 2 is not valid CSV"),
        (HEADER + b"1," + b"9" * 70_000 + b",5\n", "line 2 is longer than 65536 bytes"),
    ],
)
def test_bad_trace_is_refused_with_line_and_fault(text: bytes, problem: str) -> None:
    with pytest.raises(TraceUnreadable) as refusal:
        read(text)
    assert problem in str(refusal.value)


def test_missing_configured_column_is_named() -> None:
    with pytest.raises(TraceUnreadable, match="has no column 'tokens'"):
        read(HEADER + b"1,2,3\n", ColumnNames(context="tokens"))


def endless() -> Iterator[bytes]:
    """Yield a trace that never ends. A reader that needs all rows before its first result would hang."""
    yield HEADER
    at = 0
    while True:
        yield b"%d,%d,%d\n" % (at, at % 3000 + 1, at % 7)
        at += 1


def test_trace_is_read_row_by_row() -> None:
    assert len(list(islice(read_trace(endless()), 1000))) == 1000


def peak_bytes(rows: int) -> int:
    """Return the peak memory in bytes while traffic is computed from `rows` rows."""
    requests = sort_by_arrival(read_trace(islice(endless(), rows + 1)), window=100)
    tracemalloc.start()
    try:
        read_traffic_of_trace(requests, LIMITS, kv_blocks=500)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_rows_of_a_trace() -> None:
    # Both traces have the same 3000 distinct lengths, but the first trace has four times as many rows. If memory grew
    # with the rows, the first peak would be about four times as large.
    assert peak_bytes(20_000) < 1.3 * peak_bytes(5_000)


def at(*arrivals: float) -> list[Request]:
    return [Request(arrival, 1, 1) for arrival in arrivals]


@given(st.lists(st.integers(0, 50), max_size=30))
def test_trace_shorter_than_the_window_is_sorted(arrivals: list[int]) -> None:
    assert list(sort_by_arrival(at(*arrivals), window=30)) == at(*sorted(arrivals))


def test_request_within_the_window_is_sorted() -> None:
    assert list(sort_by_arrival(at(1, 3, 2, 4), window=2)) == at(1, 2, 3, 4)


def test_request_outside_of_the_window_is_refused() -> None:
    with pytest.raises(TraceUnreadable, match=r"more than 2 rows too late\. Sort the requests by arrival"):
        list(sort_by_arrival(at(5, 6, 7, 8, 1), window=2))


def test_sorting_window_is_100_000_rows() -> None:
    assert WINDOW == 100_000


def test_halves_are_the_earlier_and_the_later_requests() -> None:
    requests = at(1, 2, 3, 4, 5)
    rest = iter(requests)
    assert list(take_first_half(rest, count_requests(requests))) == at(1, 2)
    assert list(rest) == at(3, 4, 5)


def test_single_request_has_no_halves() -> None:
    with pytest.raises(TraceUnreadable, match="has only 1 request"):
        count_requests(at(1))
