"""While serving: when plans are compared, and what of it becomes part of the report."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.report import PlanAdvice, PlanCost, Served, ServedPhase
from gaudi_runtime.learning.advisor import USUAL_SCHEDULE, Schedule, advise_now_and_then, question_of
from gaudi_runtime.learning.comparison import Question
from gaudi_runtime.learning.process import ComparisonFailed, compare
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
    """Answers in turn, and then none: `over` is set when another one is asked for."""

    def __init__(self, *answers: PlanAdvice | Exception | None) -> None:
        self.asked: list[Question] = []
        self.sequences: list[int] = []
        self.over = asyncio.Event()
        self._answers = list(answers)

    async def __call__(self, asked: Question) -> PlanAdvice | None:
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
    board.refresh(served=Served(prompt=ServedPhase(hits=prompts), decode=ServedPhase(misses=steps)))
    return board


@asynccontextmanager
async def advising(board: ReportBoard, ask: Comparisons) -> AsyncIterator[None]:
    ask.board = board
    task = asyncio.create_task(advise_now_and_then(question(traffic=""), lambda: MET, board, Schedule(0, 0, 10, ask)))
    try:
        yield
    finally:
        task.cancel()


async def after(board: ReportBoard, ask: Comparisons) -> PlanAdvice | None:
    async with advising(board, ask):
        await asyncio.wait_for(ask.over.wait(), 30)
        return board.report().advice


async def test_advice_is_news_of_the_report() -> None:
    board, ask = board_with(10, 10), Comparisons(advice(24))
    assert await after(board, ask) == advice(24)
    assert ask.sequences[1] == ask.sequences[0] + 1


async def test_question_has_the_traffic_that_was_met() -> None:
    board, ask = board_with(10, 10), Comparisons()
    await after(board, ask)
    assert ask.asked == [question(traffic="prompt 1 412 0 17\ndecode 3 1 40 250\n")]


async def test_same_advice_is_no_news() -> None:
    ask = Comparisons(advice(24), advice(24), advice(24))
    await after(board_with(10, 10), ask)
    assert len(set(ask.sequences[1:])) == 1


async def test_advice_that_does_not_hold_any_more_goes() -> None:
    assert await after(board_with(10, 10), Comparisons(advice(24), None)) is None


async def test_failed_comparison_is_logged_and_advice_stays(caplog: pytest.LogCaptureFixture) -> None:
    ask = Comparisons(advice(24), ComparisonFailed("it took more than 900 s"))
    assert await after(board_with(10, 10), ask) == advice(24)
    assert "it took more than 900 s" in caplog.text


@pytest.mark.parametrize(("prompts", "steps"), [(9, 5000), (5000, 9), (5000, 0)])
async def test_nothing_is_compared_before_enough_batches(prompts: int, steps: int) -> None:
    board, ask = board_with(prompts, steps), Comparisons()
    async with advising(board, ask):
        for _ in range(50):
            await asyncio.sleep(0)
        assert ask.asked == []
        board.refresh(served=Served(prompt=ServedPhase(hits=10), decode=ServedPhase(hits=10)))
        await asyncio.wait_for(ask.over.wait(), 30)


def test_plans_are_usually_compared_by_another_process_once_an_hour() -> None:
    assert (USUAL_SCHEDULE.ask, USUAL_SCHEDULE.every) == (compare, 3600)


def unified() -> BucketPolicy:
    return BucketPolicy(strategy=Strategy.UNIFIED)


@pytest.mark.parametrize("policy", [BucketPolicy, unified])
def test_warm_up_that_measured_nothing_has_no_question(policy: Callable[[], BucketPolicy]) -> None:
    config = sim_config().model_copy(update={"bucketing": policy()})
    assert question_of(config, BLOCKS, None) is None
    assert (question_of(config, BLOCKS, PACE) is None) == (policy is unified)
