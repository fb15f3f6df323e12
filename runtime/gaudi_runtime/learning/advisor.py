"""While serving: compare a learned plan with the one that serves, now and then, and put the result into the report."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import PlanAdvice, Served
from gaudi_runtime.learning.comparison import Question, is_comparable
from gaudi_runtime.learning.process import compare
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.traffic.histogram import Traffic, write_traffic
from gaudi_runtime.warmup.estimate import Pace

log = logging.getLogger(__name__)

Compare = Callable[[Question], Awaitable[PlanAdvice | None]]


@dataclass(frozen=True)
class Schedule:
    """When plans are compared, in seconds, the batches of each phase that must have been met before, and by what.

    With 1,000 prompts of a public trace their mean padding is known within 0.7 % (8B example), which is about what
    counts as no more padding.
    """

    look: float = 600.0
    every: float = 3600.0
    least_batches: int = 1000
    ask: Compare = compare


USUAL_SCHEDULE = Schedule()


def question_of(config: RuntimeConfig, blocks: DeviceBlocks, pace: Pace | None) -> Question | None:
    """Return what a learned plan is compared with; None if nothing was measured or no plan can be learned."""
    if pace is None or not is_comparable(config.bucketing, config.limits):
        return None
    return Question(policy=config.bucketing, limits=config.limits, blocks=blocks, pace=pace, traffic="")


async def advise_now_and_then(
    question: Question, traffic: Callable[[], Traffic], board: ReportBoard, schedule: Schedule
) -> None:
    """Keep `advice` of the report up to date until cancelled; `traffic` is what was met so far.

    A comparison that fails is only logged.
    """
    while True:
        await asyncio.sleep(schedule.look)
        if not _met_enough(board.report().served, schedule.least_batches):
            continue
        try:
            _publish(await _advice(question, traffic(), schedule.ask), board)
        except Exception as error:  # whatever it was, it must not end serving
            log.warning("A learned plan was not compared with the one that serves: %s", error)
        await asyncio.sleep(max(0.0, schedule.every - schedule.look))


async def _advice(question: Question, traffic: Traffic, ask: Compare) -> PlanAdvice | None:
    # In a thread: to write thousands of shapes takes longer than the loop should stand.
    text = await asyncio.to_thread(write_traffic, traffic)
    return await ask(question.model_copy(update={"traffic": text}))


def _met_enough(served: Served, least: int) -> bool:
    """Whether enough batches of both phases were met: without traffic of one no plan can be learned."""
    return all(phase.hits + phase.misses >= least for phase in (served.prompt, served.decode))


def _publish(advice: PlanAdvice | None, board: ReportBoard) -> None:
    if advice == board.report().advice:
        return
    board.update(advice=advice)
    if advice:
        log.info(
            "A plan learned from the traffic so far needs %d graphs instead of %d, and warms up in about %.0f instead "
            "of %.0f s",
            advice.learned.graphs,
            advice.now.graphs,
            advice.learned.warmup_seconds,
            advice.now.warmup_seconds,
        )
