"""The advisor: compares a learned plan with the serving plan at intervals, and writes the result into the report."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import PlanAdvice, ServedTraffic
from gaudi_runtime.learning.comparison import ComparisonInput, is_comparable
from gaudi_runtime.learning.comparison_process import compare_in_process
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from gaudi_runtime.warmup.estimate import Pace

log = logging.getLogger(__name__)

Compare = Callable[[ComparisonInput], Awaitable[PlanAdvice | None]]


@dataclass(frozen=True)
class Schedule:
    """The schedule of plan comparisons: intervals in seconds, the fewest batches of each phase, and the comparison.

    After 1,000 prompts of a public trace, the error of their mean padding is at most 0.7 % (8B example). Plans that
    differ by about this much count as equal in padding.
    """

    poll_seconds: float = 600.0
    interval_seconds: float = 3600.0
    min_batches: int = 1000
    compare: Compare = compare_in_process


USUAL_SCHEDULE = Schedule()


def make_comparison_input(config: RuntimeConfig, blocks: DeviceBlocks, pace: Pace | None) -> ComparisonInput | None:
    """Return the input of a plan comparison, or None if no pace was measured or the plans are not comparable."""
    if pace is None or not is_comparable(config.limits):
        return None
    return ComparisonInput(policy=config.bucketing, limits=config.limits, blocks=blocks, pace=pace, traffic="")


async def advise_periodically(
    question: ComparisonInput, read_traffic: Callable[[], Traffic], board: ReportBoard, schedule: Schedule
) -> None:
    """Compare plans at intervals until cancelled, and update `advice` in the report.

    `read_traffic` returns the traffic observed so far. If a comparison fails, the error is only logged.
    """
    while True:
        await asyncio.sleep(schedule.poll_seconds)
        if not _has_enough_batches(board.report().served, schedule.min_batches):
            continue
        try:
            _publish_advice(await _compare_plans(question, read_traffic(), schedule.compare), board)
        except Exception as error:  # no error here may end serving
            log.warning("The learned plan could not be compared with the serving plan: %s", error)
        await asyncio.sleep(max(0.0, schedule.interval_seconds - schedule.poll_seconds))


async def _compare_plans(question: ComparisonInput, traffic: Traffic, compare: Compare) -> PlanAdvice | None:
    # A separate thread writes the text, because thousands of shapes would block the event loop.
    text = await asyncio.to_thread(format_traffic, traffic)
    return await compare(question.model_copy(update={"traffic": text}))


def _has_enough_batches(served: ServedTraffic, min_batches: int) -> bool:
    """Return True if enough batches of both phases were served to learn a plan."""
    return all(phase.hits + phase.misses >= min_batches for phase in (served.prompt, served.decode))


def _publish_advice(advice: PlanAdvice | None, board: ReportBoard) -> None:
    if advice == board.report().advice:
        return
    board.update(advice=advice)
    if advice:
        log.info(
            "A plan learned from the traffic so far needs %d graphs instead of %d, and warms up in about %.0f s "
            "instead of %.0f s",
            advice.learned.graphs,
            advice.now.graphs,
            advice.learned.warmup_seconds,
            advice.now.warmup_seconds,
        )
