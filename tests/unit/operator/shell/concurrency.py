"""Counting in one thread, as a metrics scrape does, while the event loop's thread changes the counted objects."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

SWITCH_SECONDS = 1e-6
"""The interval after which Python switches threads: often enough to interrupt every count of `INITIAL` entries."""
INITIAL = 2000
FINAL = 3 * INITIAL
"""A limit, because a count of ever more entries takes ever longer."""


def count_during_changes(count: Callable[[], int], change: Callable[[int], object]) -> int:
    """Return the last of 100 counts that run while `change` adds entries. Raises the error of a failed count.

    `INITIAL` entries exist before the first count, and `FINAL` entries are added at most.
    """
    for number in range(INITIAL):
        change(number)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with ThreadPoolExecutor(1) as thread:
            counts = thread.submit(lambda: [count() for _ in range(100)])
            for number in range(INITIAL, FINAL):
                if counts.done():
                    break
                change(number)
        return counts.result()[-1]
    finally:
        sys.setswitchinterval(before)
