"""How long warm-up may begin new buckets (docs/warmup.md, Time budget)."""

from collections.abc import Callable


class TimeBudget:
    """`seconds` from now, None for as long as it takes. `clock` returns monotonic seconds."""

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._seconds, self._clock, self._started = seconds, clock, clock()

    def spent(self) -> bool:
        """Whether no further bucket may be begun; one in work is finished."""
        return self._seconds is not None and self.elapsed() >= self._seconds

    def elapsed(self) -> float:
        """Seconds since warm-up began."""
        return self._clock() - self._started

    @property
    def reason(self) -> str:
        """Why a bucket was left out, once the budget is spent."""
        return f"the time budget of {self._seconds:g} s was spent before its turn"
