"""The deadlines of one reconcile: which deadlines have passed, and when the next reconcile is due."""

from datetime import datetime

_LATE_SECONDS = 0.1
"""Seconds added to a requeue, because a reconcile just before its deadline would find the same state again."""


class Deadlines:
    """The deadlines that one reconcile checks. `now` is the time of the observation.

    A check of a pending deadline also schedules a reconcile for this deadline. Therefore every pending deadline has a
    requeue. Each reconcile creates its own instance, which is the only mutable object of the decision.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._requeue_seconds: float | None = None

    def has_passed(self, since: datetime, seconds: float) -> bool:
        """Return True if `seconds` have passed since `since`. Otherwise schedule a requeue for that moment."""
        remaining_seconds = seconds - (self.now - since).total_seconds()
        if remaining_seconds > 0:
            self.schedule_requeue(remaining_seconds)
        return remaining_seconds <= 0

    def schedule_requeue(self, seconds: float) -> None:
        """Schedule a requeue after at most `seconds` (above 0)."""
        self._requeue_seconds = seconds if self._requeue_seconds is None else min(self._requeue_seconds, seconds)

    @property
    def requeue_after(self) -> float | None:
        """The seconds until the first scheduled deadline, or None if no deadline is pending."""
        return None if self._requeue_seconds is None else self._requeue_seconds + _LATE_SECONDS
