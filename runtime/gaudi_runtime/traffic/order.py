"""Requests in order of arrival: logs are often written in order of completion."""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heapreplace

from gaudi_runtime.errors import TraceUnreadable
from gaudi_runtime.traffic.trace import Request

WINDOW = 100_000
"""Requests that are held back to be put in order: a shorter trace may be in any order."""


def in_order(requests: Iterable[Request], window: int = WINDOW) -> Iterator[Request]:
    """The requests by arrival. Raises TraceUnreadable for one that stands more than `window` rows too late."""
    held: list[Request] = []
    last = -float("inf")
    for request in requests:
        if len(held) < window:
            heappush(held, request)
            continue
        if request.arrival < last:
            raise TraceUnreadable(f"has a request more than {window} rows after its place in time; sort it by arrival")
        first = heapreplace(held, request) if held[0] <= request else request
        last = first.arrival
        yield first
    while held:
        yield heappop(held)
