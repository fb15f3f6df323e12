"""The plan worker as a real process, and questions that exceed its limits or kill it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gaudi_operator.core.admission.plan_figures import AdmissionFigures, AdmissionFiguresQuestion
from gaudi_operator.core.admission.spec_forecast import ForecastQuestion, forecast_question
from gaudi_operator.core.plan_answers import (
    AnswerNotComputed,
    AnyPlanQuestion,
    PlanQuestion,
    PlanTooExpensive,
    compute_answer,
)
from gaudi_operator.core.status.cold_shapes import ColdShape, CoveredShapesQuestion
from gaudi_operator.shell.plans.planning import PendingQuestion, Planner, QuestionQueue
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from tests.support.forecasts import seed
from tests.unit.operator.core.resources import inference

MEMORY = 200 * 2**20
POLICY = BucketPolicy()
LIMITS = Limits(max_model_len=2048, max_num_seqs=16, max_num_prefill_seqs=4, max_num_batched_tokens=2048)
FIGURES = AdmissionFiguresQuestion(POLICY, LIMITS, 200, 100, 100, 1024, None)


@dataclass(frozen=True)
class Endless(PlanQuestion[int]):
    """A question whose computation never ends."""

    kind = int
    size = 1

    def answer(self) -> int:
        while True:
            pass


@dataclass(frozen=True)
class Large(PlanQuestion[int]):
    """A question whose answer needs 1 GiB of memory."""

    kind = int
    size = 1

    def answer(self) -> int:
        return len(bytearray(2**30))


@dataclass(frozen=True)
class Deadly(PlanQuestion[int]):
    """A question whose answer kills the worker process."""

    kind = int
    size = 1
    signal: int = signal.SIGKILL

    def answer(self) -> int:
        os.kill(os.getpid(), self.signal)
        return 0


@dataclass(frozen=True)
class Mistyped(PlanQuestion[int]):
    """A question for a number that returns a text."""

    kind = int
    size = 1

    def answer(self) -> Any:
        return "a text"


@dataclass(frozen=True)
class Defective(PlanQuestion[int]):
    """A question whose answer raises ZeroDivisionError."""

    kind = int
    size = 1

    def answer(self) -> int:
        return 1 // 0


@pytest.fixture
async def planner() -> AsyncIterator[Planner]:
    async with Planner(MEMORY, 0.5) as planner:
        yield planner


async def answer_of(planner: Planner, question: AnyPlanQuestion, namespace: str = "models") -> Any:
    """Ask a question and return the answer as soon as it is known."""
    answered = asyncio.Event()
    planner.queue_question(Key(namespace, repr(question)[:50]), question, lambda _: answered.set())
    async with asyncio.timeout(60):
        await answered.wait()
    return planner.answers.get(question)


QUESTIONS: dict[str, AnyPlanQuestion] = {
    "figures": FIGURES,
    "forecast": forecast_question(inference()),
    "forecast of a known model": forecast_question(inference(**seed())),
    "cold shapes": CoveredShapesQuestion(
        POLICY, LIMITS, 200, (ColdShape(BucketPhase.PROMPT, 1, 99, 0), ColdShape(BucketPhase.DECODE, 999, 1, 9_999))
    ),
}


async def test_answer_equals_the_directly_computed_one(planner: Planner) -> None:
    for name, question in QUESTIONS.items():
        assert await answer_of(planner, question) == compute_answer(question), name


async def test_answer_for_an_impossible_forecast_is_none(planner: Planner) -> None:
    impossible = BucketPolicy(strategy="file", file="nothing")
    assert (
        await answer_of(planner, ForecastQuestion(impossible, forecast_question(inference()).inputs, None, 9)) is None
    )


async def test_impossible_plan_has_its_message(planner: Planner) -> None:
    policy = BucketPolicy(strategy="file", file="nothing")
    with pytest.raises(PlanImpossible, match="bucket file, line 1: the line is not a tuple of three elements"):
        await answer_of(planner, AdmissionFiguresQuestion(policy, LIMITS, 200, 100, 100, 1024, None))


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (Endless(), "took more than 0.5 s of processor time"),
        (Large(), "took more than 200 MiB of memory"),
        (Deadly(), "ended its process with code -9"),
        (Deadly(signal.SIGSEGV), "ended its process with code -11"),
        (Mistyped(), "gave an answer that cannot be read"),
        (Defective(), "met a defect of the operator \\(ZeroDivisionError: "),
    ],
    ids=["time", "memory", "killed", "fault", "type", "defect"],
)
async def test_failed_question_raises_plan_too_expensive(
    planner: Planner, question: AnyPlanQuestion, sentence: str
) -> None:
    with pytest.raises(PlanTooExpensive, match=sentence):
        await answer_of(planner, question)
    assert isinstance(await answer_of(planner, FIGURES), AdmissionFigures)


async def test_known_answer_is_returned_during_another_question(planner: Planner) -> None:
    await answer_of(planner, FIGURES)
    planner.queue_question(Key("others", "endless"), Endless(), lambda _: None)
    assert isinstance(planner.answers.get(FIGURES), AdmissionFigures)
    with pytest.raises(AnswerNotComputed):
        planner.answers.get(Endless())


async def test_stopped_planner_kills_its_process() -> None:
    async with Planner(MEMORY, 60) as planner:
        await answer_of(planner, FIGURES)
        planner.queue_question(Key("models", "endless"), Endless(), lambda _: None)
        process = planner._process
    assert process
    assert process.returncode == -signal.SIGKILL


def serving_order(*keys: str) -> list[str]:
    """Return the order in which the resources `namespace/name` are served."""
    queue = QuestionQueue()
    for number, key in enumerate(keys):
        queue.add(PendingQuestion(Key(*key.split("/")), number, print))
    found = []
    while answer_of := queue.pop():
        found.append("/".join(answer_of.key))
    return found


def test_namespaces_are_served_round_robin() -> None:
    assert serving_order("a/1", "a/2", "a/3", "b/1", "c/1", "b/2") == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]


def test_only_the_last_question_of_a_resource_is_queued() -> None:
    assert serving_order("a/1", "a/1", "a/1", "b/1") == ["a/1", "b/1"]


def test_empty_queue_has_no_next_resource() -> None:
    assert serving_order() == []
