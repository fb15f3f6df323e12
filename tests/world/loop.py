"""An event loop on the seconds of the world: nothing waits in it, and time goes on only as far as the world says."""

import asyncio
from collections.abc import Callable
from typing import Any


class Loop(asyncio.BaseEventLoop):
    """asyncio.sleep, timeouts and call_later count in the world's seconds; threads run at once, in their caller's turn.

    `defects` are exceptions that nobody has taken.
    """

    def __init__(self) -> None:
        """At second 0."""
        self._now, self._until = 0.0, float("inf")
        self.defects: list[str] = []
        super().__init__()
        self._selector = self
        self.set_exception_handler(lambda _, context: self.defects.append(repr(context)))

    def time(self) -> float:
        """Seconds of the world."""
        return self._now

    def run_until(self, moment: float) -> None:
        """Run all that is ready, and all timers up to `moment`."""
        self._until = moment
        self.run_forever()

    def select(self, timeout: float | None) -> list[Any]:
        """What asyncio asks when nothing is ready: go on to the next timer, or end this turn."""
        if timeout is None or self._now + timeout > self._until:
            assert self._until < float("inf"), "everybody waits, and nothing will happen"
            self._now = self._until
            self.stop()
        else:
            self._now += timeout
        return []

    def run_in_executor(self, _: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """No thread: a decision takes no time of the world."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _process_events(self, _: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody has to be woken."""
