"""The report board: the current WarmupReport, which any thread may write and the event loop reads."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from gaudi_runtime.contract.report import Phase, RuntimeFailure, WarmupReport
from gaudi_runtime.report.bucket_board import BucketBoard

COALESCE_SECONDS = 0.5
MAX_WAIT_SECONDS = 60.0
MAX_WAITERS = 16


class TooManyWaiters(Exception):
    """The error that the long poll already has the maximum number of waiters."""


class ReportBoard:
    """The publisher of this instance's report. Create it inside the running event loop.

    `clock` returns monotonic seconds. Waiters receive progress within a phase `coalesce_seconds` after its first
    change.
    """

    def __init__(
        self,
        plan_hash: str,
        clock: Callable[[], float] = time.monotonic,
        coalesce_seconds: float = COALESCE_SECONDS,
    ) -> None:
        self._clock, self._coalesce_seconds = clock, coalesce_seconds
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._report = WarmupReport(instance=uuid4().hex, sequence=1, plan_hash=plan_hash, phase=Phase.STARTING)
        self.buckets = BucketBoard()
        """The state of each bucket. The report has only the counts."""
        self.on_phase: Callable[[WarmupReport], None] = lambda _: None
        """Called with the first report of each phase, from any thread."""
        self._kept: dict[str, Any] = {}
        self._started = self._moved = self._eta_at = clock()
        self._announced = 1
        self._news = asyncio.Event()
        self._pending: asyncio.TimerHandle | None = None
        self._waiters = 0
        self._closed = False

    def restart_stall_clock(self) -> None:
        """Restart the stall clock after progress that is not visible in the report. Thread-safe."""
        self._moved = self._clock()

    def update(self, **changes: Any) -> None:
        """Replace fields of the report and increase its sequence by one. Thread-safe."""
        with self._lock:
            before = self._report
            now = self._moved = self._clock()
            if "eta_seconds" in changes:
                self._eta_at = now
            if not before.phase.is_settled and changes.get("phase", before.phase).is_settled:
                changes |= {"elapsed_seconds": now - self._started, "eta_seconds": None}
            self._report = before.model_copy(update={**changes, **self._kept, "sequence": before.sequence + 1})
            after = self._report
        urgent = after.phase is not before.phase
        if urgent:
            self.on_phase(after)
        # Updates come from the worker thread, but only the event loop may use the event and its timer.
        self._loop.call_soon_threadsafe(self._announce_soon, urgent)

    def update_silently(self, **figures: Any) -> None:
        """Update figures without waking the long polls."""
        with self._lock:
            self._report = self._report.model_copy(update={**figures, **self._kept})

    def pin_fields(self, **fields: Any) -> None:
        """Fix fields of the report to these values. Later updates do not change these fields."""
        self._kept = fields
        self.update()

    def fail(self, failure: RuntimeFailure) -> None:
        """Report that this start-up failed, with a reason and a message."""
        self.update(phase=Phase.FAILED, failure=failure)

    def report(self) -> WarmupReport:
        """Return the current report, with its durations up to date."""
        with self._lock:
            report, now = self._report, self._clock()
            if report.phase.is_settled:
                return report  # its durations no longer change
            eta = report.eta_seconds
            return report.model_copy(
                update={
                    "elapsed_seconds": now - self._started,
                    "since_progress_seconds": max(0.0, now - self._moved),
                    "eta_seconds": None if eta is None else max(0.0, eta - (now - self._eta_at)),
                }
            )

    async def wait_for_update(self, after: int, seconds: float) -> WarmupReport:
        """Wait until the announced sequence is above `after`, and return the report.

        The wait ends after `seconds` or MAX_WAIT_SECONDS. Raises TooManyWaiters if MAX_WAITERS other calls wait.
        """
        if self._waiters >= MAX_WAITERS:
            raise TooManyWaiters
        self._waiters += 1
        try:
            async with asyncio.timeout(min(seconds, MAX_WAIT_SECONDS)):
                # If `after` is larger than the current sequence number, it belongs to another instance. The call then
                # returns immediately.
                while self._announced <= after <= self._report.sequence and not self._closed:
                    await self._news.wait()
        except TimeoutError:
            pass
        finally:
            self._waiters -= 1
        return self.report()

    def close(self) -> None:
        """Answer all long polls and reject new ones, because the process is about to end."""
        self._closed = True
        self._announce()

    def _announce_soon(self, urgent: bool) -> None:
        # Progress within a phase is announced at most twice a second. Otherwise a fast warm-up would make every long
        # poll a busy loop.
        if urgent:
            self._announce()
        elif self._pending is None:
            self._pending = self._loop.call_later(self._coalesce_seconds, self._announce)

    def _announce(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        self._announced = self._report.sequence
        # The next waiters get a new event. An event that is set and immediately cleared may not wake all waiters.
        news, self._news = self._news, asyncio.Event()
        news.set()
