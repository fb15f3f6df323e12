"""When plans are compared during serving, and how the advice is added to the report."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import PlanAdvice, PlanCost, ServedPhase, ServedTraffic
from gaudi_runtime.learning.advisor import USUAL_SCHEDULE, Schedule, advise_periodically, make_comparison_input
from gaudi_runtime.learning.comparison import ComparisonInput
from gaudi_runtime.learning.comparison_process import ComparisonFailed, compare_in_process
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.traffic.histogram import Traffic
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.learning.questions import BLOCKS, question

MET = Traffic({Bucket(1, 412, 0): 17.0}, {Bucket(3, 1, 40): 250.0})
PACE = question().pace


def advice(graphs: int) -> PlanAdvice:
    now, learned = (PlanCost(graphs=count, warmup_seconds=count) for count in (90, graphs))
    return PlanAdvice(now=now, learned=learned)


class Comparisons:
    """A comparison that returns answers in turn, and then None. The first call after the last answer sets `over`."""

    def __init__(self, *answers: PlanAdvice | Exception | None) -> None:
        self.asked: list[ComparisonInput] = []
        self.sequences: list[int] = []
        self.over = asyncio.Event()
        self._answers = list(answers)

    async def __call__(self, asked: ComparisonInput) -> PlanAdvice | None:
        self.asked.append(asked)
        self.sequences.append(self.board.report().sequence)
        if not self._answers:
            self.over.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    board: ReportBoard


def board_with(prompts: int, steps: int) -> ReportBoard:
    board = ReportBoard("0" * 64)
    board.update_silently(served=ServedTraffic(prompt=ServedPhase(hits=prompts), decode=ServedPhase(misses=steps)))
    return board


@asynccontextmanager
async def advising(board: ReportBoard, comparisons: Comparisons) -> AsyncIterator[None]:
    comparisons.board = board
    task = asyncio.create_task(
        advise_periodically(question(traffic=""), lambda: MET, board, Schedule(0, 0, 10, comparisons))
    )
    try:
        yield
    finally:
        task.cancel()


async def advice_after(board: ReportBoard, comparisons: Comparisons) -> PlanAdvice | None:
    async with advising(board, comparisons):
        await asyncio.wait_for(comparisons.over.wait(), 30)
        return board.report().advice


async def test_advice_changes_the_report() -> None:
    board, comparisons = board_with(10, 10), Comparisons(advice(24))
    assert await advice_after(board, comparisons) == advice(24)
    assert comparisons.sequences[1] == comparisons.sequences[0] + 1


async def test_question_has_the_served_traffic() -> None:
    board, comparisons = board_with(10, 10), Comparisons()
    await advice_after(board, comparisons)
    assert comparisons.asked == [question(traffic="prompt 1 412 0 17\ndecode 3 1 40 250\n")]


async def test_unchanged_advice_does_not_change_the_report() -> None:
    comparisons = Comparisons(advice(24), advice(24), advice(24))
    await advice_after(board_with(10, 10), comparisons)
    assert len(set(comparisons.sequences[1:])) == 1


async def test_outdated_advice_is_removed() -> None:
    assert await advice_after(board_with(10, 10), Comparisons(advice(24), None)) is None


async def test_failed_comparison_is_logged_and_advice_stays(caplog: pytest.LogCaptureFixture) -> None:
    comparisons = Comparisons(advice(24), ComparisonFailed("the comparison took more than 900 s"))
    assert await advice_after(board_with(10, 10), comparisons) == advice(24)
    assert "the comparison took more than 900 s" in caplog.text


@pytest.mark.parametrize(("prompts", "steps"), [(9, 5000), (5000, 9), (5000, 0)])
async def test_plans_are_not_compared_before_enough_batches(prompts: int, steps: int) -> None:
    board, comparisons = board_with(prompts, steps), Comparisons()
    async with advising(board, comparisons):
        for _ in range(50):
            await asyncio.sleep(0)
        assert comparisons.asked == []
        board.update_silently(served=ServedTraffic(prompt=ServedPhase(hits=10), decode=ServedPhase(hits=10)))
        await asyncio.wait_for(comparisons.over.wait(), 30)


def test_plans_are_compared_in_a_process_every_hour() -> None:
    assert (USUAL_SCHEDULE.compare, USUAL_SCHEDULE.interval_seconds) == (compare_in_process, 3600)


def test_first_comparison_needs_ten_minutes_and_1000_batches() -> None:
    assert (USUAL_SCHEDULE.poll_seconds, USUAL_SCHEDULE.min_batches) == (600, 1000)


def test_warm_up_without_measured_steps_has_no_question() -> None:
    assert make_comparison_input(sim_config(), BLOCKS, None) is None
    assert make_comparison_input(sim_config(), BLOCKS, PACE) is not None
