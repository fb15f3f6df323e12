"""The clock of the shell. It is a parameter, so that tests can skip hours."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """A wall clock in UTC (`now`) for published times, and `monotonic` seconds for delays and timeouts."""

    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic


SYSTEM = Clock()
"""The clock of this machine."""
