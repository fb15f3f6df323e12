"""An event loop on the simulated clock. The loop never blocks, and only the simulation advances the time."""

import asyncio
from collections.abc import Callable
from typing import Any


class Loop(asyncio.BaseEventLoop):
    """An event loop in which asyncio.sleep, timeouts and call_later count simulated seconds.

    Work for threads runs immediately in the calling thread. `defects` contains exceptions that no task has handled.
    """

    def __init__(self) -> None:
        """Start at second 0."""
        self._now, self._until = 0.0, float("inf")
        self.defects: list[str] = []
        super().__init__()
        self._selector = self
        self.set_exception_handler(lambda _, context: self.defects.append(repr(context)))

    def time(self) -> float:
        """Return the simulated seconds."""
        return self._now

    def run_until(self, moment: float) -> None:
        """Run all ready callbacks, and all timers up to `moment`."""
        self._until = moment
        self.run_forever()

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the time to the next timer. Stop the loop if the next timer is later than the end of run_until()."""
        if timeout is None or self._now + timeout > self._until:
            assert self._until < float("inf"), "deadlock: all tasks wait, and no timer is set"
            self._now = self._until
            self.stop()
        else:
            self._now += timeout
        return []

    def run_in_executor(self, _: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run `func` immediately. Work for threads takes no simulated time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _process_events(self, _: list[Any]) -> None:
        """Do nothing, because the loop has no I/O events."""

    def _write_to_self(self) -> None:
        """Do nothing, because the loop never blocks."""
