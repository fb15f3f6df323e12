"""The deadlines of one reconcile: which have passed, and when to requeue if nothing else changes."""

from datetime import datetime

_LATE_SECONDS = 0.1
"""Seconds added to a requeue, because a reconcile just before its deadline would find the same state again."""


class Deadlines:
    """The deadlines checked in one reconcile. `now` is the time of the observation.

    Checking a pending deadline also schedules a reconcile for it. So every pending deadline has a requeue, and every
    requeue has a reason. Each reconcile creates its own instance, which is the only mutable value of a reconcile.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._due: float | None = None

    def reached(self, since: datetime, seconds: float) -> bool:
        """Return True if `seconds` have passed since `since`. Otherwise schedule a requeue for that moment."""
        left = seconds - (self.now - since).total_seconds()
        if left > 0:
            self.requeue(left)
        return left <= 0

    def requeue(self, seconds: float) -> None:
        """Schedule a requeue after at most `seconds` (above 0)."""
        self._due = seconds if self._due is None else min(self._due, seconds)

    @property
    def requeue_after(self) -> float | None:
        """Seconds until the first scheduled deadline, or None if no deadline is pending."""
        return None if self._due is None else self._due + _LATE_SECONDS
