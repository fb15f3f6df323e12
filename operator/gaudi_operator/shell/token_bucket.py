"""A token bucket, which limits the cost of one pod or resource: a burst, then a steady rate."""

import asyncio

from gaudi_operator.clock import SYSTEM, Clock


class TokenBucket:
    """A token bucket that starts full, in memory only."""

    def __init__(self, burst: float, per_second: float, clock: Clock = SYSTEM) -> None:
        """Create a bucket of at most `burst` tokens, with `per_second` new tokens (above 0)."""
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._tokens, self._at = burst, clock.monotonic()

    def take(self) -> bool:
        """Take a token. Returns False if there is none."""
        if self.seconds_left() > 0:
            return False
        self._tokens -= 1
        return True

    async def wait(self) -> None:
        """Wait for a token and take it."""
        await asyncio.sleep(self.seconds_left())
        # Subtract a token even if the sleep ended slightly early. The missing part of the token extends the next wait.
        self._tokens -= 1

    def seconds_left(self) -> float:
        """Return the seconds until there is a token; 0 if there is one."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, 1 - self._tokens) / self._per_second
