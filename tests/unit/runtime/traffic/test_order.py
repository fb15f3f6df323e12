import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.errors import TraceUnreadable
from gaudi_runtime.traffic.halves import count_requests, first_half
from gaudi_runtime.traffic.order import in_order
from gaudi_runtime.traffic.trace import Request


def at(*arrivals: float) -> list[Request]:
    return [Request(arrival, 1, 1) for arrival in arrivals]


@given(st.lists(st.integers(0, 50), max_size=30))
def test_trace_shorter_than_the_window_is_sorted(arrivals: list[int]) -> None:
    assert list(in_order(at(*arrivals), window=30)) == at(*sorted(arrivals))


def test_request_within_the_window_is_put_in_its_place() -> None:
    assert list(in_order(at(1, 3, 2, 4), window=2)) == at(1, 2, 3, 4)


def test_request_far_out_of_its_place_is_refused() -> None:
    with pytest.raises(TraceUnreadable, match="more than 2 rows after its place in time; sort it by arrival"):
        list(in_order(at(5, 6, 7, 8, 1), window=2))


def test_halves_are_the_earlier_and_the_later_requests() -> None:
    requests = at(1, 2, 3, 4, 5)
    rest = iter(requests)
    assert list(first_half(rest, count_requests(requests))) == at(1, 2)
    assert list(rest) == at(3, 4, 5)


def test_single_request_has_no_halves() -> None:
    with pytest.raises(TraceUnreadable, match="has a single request"):
        count_requests(at(1))
