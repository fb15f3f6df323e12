"""The times of the simulated clock. As in Kubernetes, times are whole seconds."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

START = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """Return the time `seconds` after the start."""
    return START + timedelta(seconds=seconds)


@lru_cache(64)  # many callers need the same time
def stamp(seconds: float) -> str:
    """Return the time `seconds` after the start as text."""
    return moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
