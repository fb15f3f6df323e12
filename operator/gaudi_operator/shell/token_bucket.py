"""A token bucket, which limits the work for one pod or resource: a burst, then a steady rate."""

import asyncio

from gaudi_operator.clock import SYSTEM, Clock


class TokenBucket:
    """A token bucket, which is full at the start. Its state is kept only in memory."""

    def __init__(self, burst: float, per_second: float, clock: Clock = SYSTEM) -> None:
        """Create a bucket for at most `burst` tokens, which gets `per_second` new tokens per second (above 0)."""
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._tokens, self._updated_at = burst, clock.monotonic()

    def take(self) -> bool:
        """Take a token and return True. Return False if the bucket has no token."""
        if self.seconds_until_token() > 0:
            return False
        self._tokens -= 1
        return True

    async def wait(self) -> None:
        """Wait for a token and take it."""
        await asyncio.sleep(self.seconds_until_token())
        # If the sleep ends slightly early, the number of tokens becomes negative. This extends the next wait.
        self._tokens -= 1

    def seconds_until_token(self) -> float:
        """Return the seconds until a token is available; 0 if a token is available now."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._updated_at) * self._per_second)
        self._updated_at = now
        return max(0.0, 1 - self._tokens) / self._per_second
