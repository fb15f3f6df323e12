"""What a scrape does: count in another thread what the loop changes meanwhile."""

import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

OFTEN = 1e-6
"""Seconds until Python lets another thread go on: it does so again and again within a count of `BEFORE`."""
BEFORE = 2000


def counted_meanwhile(count: Callable[[], int], change: Callable[[int], object]) -> int:
    """What `count` says in the end of what `change` adds, `BEFORE` or more; raises what a count raised."""
    for number in range(BEFORE):
        change(number)
    before = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN)
    try:
        with ThreadPoolExecutor(1) as thread:
            counts = thread.submit(lambda: [count() for _ in range(100)])
            for number in itertools.takewhile(lambda _: not counts.done(), itertools.count(BEFORE)):
                change(number)
        return counts.result()[-1]
    finally:
        sys.setswitchinterval(before)
