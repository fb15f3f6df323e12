"""Publication of the serving counters in the report: cold shapes, recompilations and failures."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from gaudi_runtime.contract.report import FEWEST_PROMPTS, RECENT_SECONDS, RequestCountsReport
from gaudi_runtime.contract.report_fields import MOST_COUNT
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.report.served import coldest_served_shapes, summarize_served
from gaudi_runtime.traffic.serving_histogram import Key, ServingHistogram

LOOK_SECONDS = 1.0

log = logging.getLogger("gaudi_runtime.warmup")


async def publish_counters(
    counters: Callable[[], ServingHistogram], requests: Callable[[], RequestCountsReport], board: ReportBoard
) -> NoReturn:
    """Publish the counters of serving in the report once a second."""
    publisher = CounterPublisher(board)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        publisher.publish(counters(), requests(), time.monotonic())


class CounterPublisher:
    """A publisher of serving counters that wakes the long polls for a cold shape, a recompilation, or many failures.

    For a learned plan, it also wakes the long polls when there are enough batches to check the padding, and after each
    doubling of these batches.
    """

    def __init__(self, board: ReportBoard) -> None:
        self._board = board
        self._compiles = board.report().compiles
        self._recent_recompiles = RecentRecompileCounter()
        self._last_snapshot: tuple[frozenset[Key], int, int, int, int, int] = (frozenset(), 0, 0, 0, 0, 0)

    def publish(self, counters: ServingHistogram, requests: RequestCountsReport, now: float) -> None:
        """Publish the counters at `now`, in monotonic seconds, and log every cold shape once."""
        recompiles = min(counters.recompiles, MOST_COUNT)
        images = counters.vision.cold if counters.vision else ()
        failures = requests.failed.bit_length()
        served = summarize_served(counters)
        prompts = (served.prompt.hits + served.prompt.misses) // FEWEST_PROMPTS if counters.padding else 0
        recent = self._recent_recompiles.count_recent(recompiles, now)
        snapshot = (frozenset(counters.cold_batches), recompiles, recent, failures, prompts.bit_length(), len(images))
        figures = {"served": served, "cold_shapes": coldest_served_shapes(counters), "requests": requests}
        if snapshot == self._last_snapshot:
            self._board.update_silently(**figures)  # growing counts do not wake long polls
            return
        for phase, bucket in sorted(snapshot[0] - self._last_snapshot[0]):
            log.warning("Configuration: (%s, %d, %d, %d) was not warmed-up!", phase, *bucket)
        for inputs in images[self._last_snapshot[-1] :]:
            log.warning("Vision tower: (%s) was not warmed-up!", inputs)
        self._last_snapshot = snapshot
        self._board.update(
            recompiles_since_ready=recompiles, recent_recompiles=recent, compiles=self._compiles + recompiles, **figures
        )


class RecentRecompileCounter:
    """A counter of the recompilations in the last RECENT_SECONDS."""

    def __init__(self) -> None:
        self._changes: deque[tuple[float, int]] = deque()
        self._old_total = self._last_total = 0

    def count_recent(self, total: int, now: float) -> int:
        """Record `total` recompilations at `now` (monotonic seconds), and return the number of recent ones."""
        if total != self._last_total:
            self._changes.append((now, total))
            self._last_total = total
        while self._changes and self._changes[0][0] <= now - RECENT_SECONDS:
            self._old_total = self._changes.popleft()[1]
        return total - self._old_total
