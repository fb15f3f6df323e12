"""The clock of one reconcile: what has waited long enough, and when the next is due although nothing changes."""

from datetime import datetime

_LATE_SECONDS = 0.1
"""A reconcile that comes a moment early would only find the same again."""


class Deadlines:
    """`now` is when the reconcile looked. Judging a deadline and noting when it falls due are one call.

    So a deadline that nobody comes back for cannot be written, and none is noted that no judgement of this reconcile
    depends on. It is recreated for each reconcile, and the only value of one that changes.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._due: float | None = None

    def reached(self, since: datetime, seconds: float) -> bool:
        """Whether `seconds` have passed since then; if not, a reconcile is due when they have."""
        left = seconds - (self.now - since).total_seconds()
        if left > 0:
            self.look_again(left)
        return left <= 0

    def look_again(self, seconds: float) -> None:
        """A reconcile is due after `seconds` (above 0), whatever else is."""
        self._due = seconds if self._due is None else min(self._due, seconds)

    @property
    def next_seconds(self) -> float | None:
        """Seconds until the first deadline that was noted; None without one."""
        return None if self._due is None else self._due + _LATE_SECONDS
