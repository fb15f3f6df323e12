"""A token bucket: so much at once, and so much a second for ever. It bounds what one stranger may cost."""

import asyncio

from gaudi_operator.clock import SYSTEM, Clock


class TokenBucket:
    """Full at first. Nothing of it must survive the process."""

    def __init__(self, burst: float, per_second: float, clock: Clock = SYSTEM) -> None:
        """At most `burst` tokens, and `per_second` new ones (above 0)."""
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._tokens, self._at = burst, clock.monotonic()

    def take(self) -> bool:
        """Take a token; whether there was one."""
        if self.seconds_left() > 0:
            return False
        self._tokens -= 1
        return True

    async def wait(self) -> None:
        """Take a token as soon as there is one."""
        await asyncio.sleep(self.seconds_left())
        # Whole or not: a sleep may end a breath early, and what is owed is waited for the next time.
        self._tokens -= 1

    def seconds_left(self) -> float:
        """Seconds until there is a token; 0 when there is one."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, 1 - self._tokens) / self._per_second
