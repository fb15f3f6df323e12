"""The time as the shell reads it: a parameter, so that a test lets hours pass in a moment."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """`now` is the wall clock, in UTC, for what others read; `monotonic` seconds are for what is waited for."""

    now: Callable[[], datetime] = _now
    monotonic: Callable[[], float] = time.monotonic


SYSTEM = Clock()
"""That of this machine."""
