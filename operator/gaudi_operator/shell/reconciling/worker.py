"""The state of one resource's task between reconciles."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gaudi_operator.retry_delays import ExponentialRetryDelays
from gaudi_operator.shell.reconciling.refusals import Refusals
from gaudi_operator.shell.reconciling.slots import Rank


@dataclass
class ReconcileWorker:
    """The in-memory state of one resource's task.

    `rank` is the priority of the next reconcile. `generation` is the generation of the spec for which reports were
    requested. If a status write is delayed, `status_held_since` is the time at which the delay began.
    """

    refusals: Refusals = field(default_factory=Refusals)
    task: asyncio.Task[None] | None = None
    backoff: ExponentialRetryDelays = field(default_factory=lambda: ExponentialRetryDelays(0.25, 10.0))
    rank: Rank = Rank.REST
    generation: int | None = None
    status_held_since: datetime | None = None
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    _gate_may_close: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None
    _changed_versions: set[int | None] = field(default_factory=set)

    def cancel(self) -> None:
        """Cancel the task."""
        if self.task:
            self.task.cancel()

    def mark_started(self) -> None:
        """Mark the start of a reconcile, which covers all changes until now."""
        self.rank = Rank.REST
        self._gate_may_close.clear()
        self._clear_due()

    def wake(self, seconds: float, version: int | None = None) -> None:
        """Schedule a reconcile within `seconds`. `version` is the version of the changed object, if there is one."""
        self._changed_versions.add(version)
        if seconds <= 0:
            self._mark_due()
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None and self._timer.when() <= loop.time() + seconds:
            return
        self._stop_timer()
        self._timer = loop.call_later(seconds, self._mark_due)

    def ignore_versions(self, versions: Iterable[int]) -> None:
        """Cancel the scheduled reconcile if only the operator's own writes have caused it."""
        # A watch often delivers a write of the operator before the response to the write arrives. The reconcile for
        # this event is not needed.
        if self._changed_versions and not self._changed_versions.difference(versions):
            self._clear_due()

    def end_back_off(self) -> None:
        """End the current back-off because a gate may have to close. During a reconcile, end the next back-off."""
        self._gate_may_close.set()

    async def back_off(self, seconds: float) -> None:
        """Wait `seconds` after a failed reconcile. Only end_back_off() ends the wait early, other changes do not."""
        await _wait_for(self._gate_may_close, seconds)

    async def wait(self, seconds: float | None) -> None:
        """Wait until a reconcile is due, at most `seconds`."""
        await _wait_for(self._due, seconds)

    def _clear_due(self) -> None:
        self._changed_versions.clear()
        self._due.clear()
        self._stop_timer()

    def _mark_due(self) -> None:
        self._stop_timer()
        self._due.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _wait_for(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
