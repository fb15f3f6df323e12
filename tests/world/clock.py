"""The injected clock: whole seconds, as Kubernetes writes them."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

START = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


@lru_cache(64)  # all who look at the clock in a second want the same
def stamp(seconds: float) -> str:
    """The same as text."""
    return moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
