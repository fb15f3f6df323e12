"""The clock of one reconcile: what has waited long enough, and when the next reconcile is due without any change."""

from datetime import datetime

_LATE_SECONDS = 0.1
"""A reconcile that comes a moment too early would only find the same again."""


class Deadlines:
    """`now` is when the reconcile observed. Judging a deadline and noting when it falls due are one call.

    So no deadline can be judged without a later reconcile, and none is noted that no judgement depends on. It is made
    for each reconcile, and is the only value of one that changes.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._due: float | None = None

    def reached(self, since: datetime, seconds: float) -> bool:
        """Whether `seconds` have passed since then; if not, a reconcile is due when they have."""
        left = seconds - (self.now - since).total_seconds()
        if left > 0:
            self.requeue(left)
        return left <= 0

    def requeue(self, seconds: float) -> None:
        """Note that a reconcile is due after `seconds` (above 0) at the latest."""
        self._due = seconds if self._due is None else min(self._due, seconds)

    @property
    def requeue_after(self) -> float | None:
        """Seconds until the first deadline that was noted; None without one."""
        return None if self._due is None else self._due + _LATE_SECONDS
