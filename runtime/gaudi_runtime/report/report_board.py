"""The report board: the current WarmupReport, which any thread may write and the event loop reads."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from gaudi_runtime.contract.report import Phase, RuntimeFailureReport, WarmupReport
from gaudi_runtime.report.bucket_board import BucketBoard

COALESCE_SECONDS = 0.5
MAX_WAIT_SECONDS = 60.0
MAX_WAITERS = 16


class TooManyReportWaiters(Exception):
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
        self._pinned_fields: dict[str, Any] = {}
        self._started = self._last_progress = self._eta_set_at = clock()
        self._announced_sequence = 1
        self._update_event = asyncio.Event()
        self._announce_timer: asyncio.TimerHandle | None = None
        self._waiter_count = 0
        self._closed = False

    def restart_stall_clock(self) -> None:
        """Restart the stall clock after progress that is not visible in the report. Thread-safe."""
        self._last_progress = self._clock()

    def update(self, **changes: Any) -> None:
        """Replace fields of the report and increase its sequence by one. Thread-safe."""
        with self._lock:
            previous = self._report
            now = self._last_progress = self._clock()
            if "eta_seconds" in changes:
                self._eta_set_at = now
            if not previous.phase.is_settled and changes.get("phase", previous.phase).is_settled:
                changes |= {"elapsed_seconds": now - self._started, "eta_seconds": None}
            self._report = previous.model_copy(
                update={**changes, **self._pinned_fields, "sequence": previous.sequence + 1}
            )
            report = self._report
        urgent = report.phase is not previous.phase
        # Updates come from the worker thread, but only the event loop may use the event and its timer.
        self._loop.call_soon_threadsafe(self._announce_soon, urgent)

    def update_silently(self, **changes: Any) -> None:
        """Update figures without waking the long polls."""
        with self._lock:
            self._report = self._report.model_copy(update={**changes, **self._pinned_fields})

    def pin_fields(self, **fields: Any) -> None:
        """Fix fields of the report to these values. Later updates do not change these fields."""
        self._pinned_fields = fields
        self.update()

    def fail(self, failure: RuntimeFailureReport) -> None:
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
                    "since_progress_seconds": max(0.0, now - self._last_progress),
                    "eta_seconds": None if eta is None else max(0.0, eta - (now - self._eta_set_at)),
                }
            )

    async def wait_for_update(self, sequence: int, seconds: float) -> WarmupReport:
        """Wait until the announced sequence is above `sequence`, and return the report.

        The wait ends after `seconds` or MAX_WAIT_SECONDS. Raises TooManyReportWaiters if MAX_WAITERS other calls wait.
        """
        if self._waiter_count >= MAX_WAITERS:
            raise TooManyReportWaiters
        self._waiter_count += 1
        try:
            async with asyncio.timeout(min(seconds, MAX_WAIT_SECONDS)):
                # If `sequence` is larger than the current sequence number, it belongs to another instance. The call
                # then returns immediately.
                while self._announced_sequence <= sequence <= self._report.sequence and not self._closed:
                    await self._update_event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiter_count -= 1
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
        elif self._announce_timer is None:
            self._announce_timer = self._loop.call_later(self._coalesce_seconds, self._announce)

    def _announce(self) -> None:
        if self._announce_timer is not None:
            self._announce_timer.cancel()
            self._announce_timer = None
        self._announced_sequence = self._report.sequence
        # The next waiters get a new event. An event that is set and immediately cleared may not wake all waiters.
        event, self._update_event = self._update_event, asyncio.Event()
        event.set()
