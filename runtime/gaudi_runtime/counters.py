"""Bring what is counted while serving into the report: requests, recompiles, cold shapes, and the buckets in use."""

import asyncio
import logging
import time
from collections import deque
from typing import NoReturn

from gaudi_runtime.contract.report import MOST_COUNT, RECENT_SECONDS, Requests
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.metrics import RequestMetrics
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.traffic.serving_histogram import Key, ServingHistogram
from gaudi_runtime.traffic.summary import coldest, summary

log = logging.getLogger("gaudi_runtime.warmup")

LOOK_SECONDS = 1.0


async def publish_counters(engine: Engine, metrics: RequestMetrics, board: ReportBoard) -> NoReturn:
    """Look once a second."""
    news = ServingNews(board)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        news.look(engine.counters, metrics.report(), time.monotonic())


class ServingNews:
    """A new cold shape, a recompile and twice as many failures are news; counts that merely grow wake nobody."""

    def __init__(self, board: ReportBoard) -> None:
        self._board = board
        self._compiles = board.report().compiles
        self._recent = RecentRecompiles()
        self._known: tuple[frozenset[Key], int, int, int] = (frozenset(), 0, 0, 0)

    def look(self, counters: ServingHistogram, requests: Requests, now: float) -> None:
        """Publish what is counted at `now`, in monotonic seconds, and log every cold shape once."""
        total = min(counters.recompiles, MOST_COUNT)
        found = (frozenset(counters.cold), total, self._recent.count(total, now), requests.failed.bit_length())
        figures = {"served": summary(counters), "cold_shapes": coldest(counters), "requests": requests}
        if found == self._known:
            self._board.refresh(**figures)
            return
        for phase, bucket in sorted(found[0] - self._known[0]):
            log.warning("Configuration: (%s, %d, %d, %d) was not warmed-up!", phase, *bucket)
        self._known = found
        self._board.update(
            recompiles_since_ready=total, recent_recompiles=found[2], compiles=self._compiles + total, **figures
        )


class RecentRecompiles:
    """How many of all recompiles so far are of the last RECENT_SECONDS."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque()
        self._old = self._total = 0

    def count(self, total: int, now: float) -> int:
        """`total` recompiles were counted at `now`, in seconds of a clock that never goes back."""
        if total != self._total:
            self._steps.append((now, total))
            self._total = total
        while self._steps and self._steps[0][0] <= now - RECENT_SECONDS:
            self._old = self._steps.popleft()[1]
        return total - self._old
