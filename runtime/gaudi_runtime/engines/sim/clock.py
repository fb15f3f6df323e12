"""The time of a simulated card: a simulated second is `scale` real ones, asleep."""

import asyncio
import time
from collections.abc import Callable


class SimClock:
    """`sleep` takes real seconds; tests give one that only moves a clock of their own."""

    def __init__(self, scale: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self.scale = scale
        self._sleep = sleep

    def spend(self, seconds: float) -> None:
        """Let so many simulated seconds pass in the start-up thread."""
        if seconds:
            self._sleep(seconds * self.scale)

    async def wait(self, seconds: float) -> None:
        """The same on the event loop; 0 only lets others have a turn."""
        await asyncio.sleep(seconds * self.scale)
