"""Splitting a trace in time: what comes first is learned from, the rest judges."""

from collections.abc import Iterable, Iterator
from itertools import islice

from gaudi_runtime.errors import TraceUnreadable
from gaudi_runtime.traffic.trace import Request


def count_requests(requests: Iterable[Request]) -> int:
    """How many requests a trace has; they are counted, not kept. Raises TraceUnreadable for fewer than two."""
    count = sum(1 for _ in requests)
    if count < 2:
        raise TraceUnreadable("has a single request; half of it cannot be learned from")
    return count


def first_half(requests: Iterator[Request], count: int) -> Iterator[Request]:
    """The earlier half of `count` requests, rounded down; once it is used up, `requests` goes on with the later one."""
    return islice(requests, count // 2)
