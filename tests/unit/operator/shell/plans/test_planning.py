"""The process that works out plans: real ones, with questions that take more than they may or end it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gaudi_operator.core.admission.plans import AdmissionFigures, AdmissionFiguresQuestion
from gaudi_operator.core.admission.review import ForecastQuestion, forecast_question
from gaudi_operator.core.answers import AnyPlanQuestion, PlanQuestion, PlanTooExpensive, Unanswered, compute_answer
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
    """Asks for something that takes for ever."""

    kind = int
    size = 1

    def answer(self) -> int:
        while True:
            pass


@dataclass(frozen=True)
class Large(PlanQuestion[int]):
    """Asks for something that takes a GiB."""

    kind = int
    size = 1

    def answer(self) -> int:
        return len(bytearray(2**30))


@dataclass(frozen=True)
class Deadly(PlanQuestion[int]):
    """Asks for something in which the process is killed."""

    kind = int
    size = 1
    signal: int = signal.SIGKILL

    def answer(self) -> int:
        os.kill(os.getpid(), self.signal)
        return 0


@dataclass(frozen=True)
class Mistyped(PlanQuestion[int]):
    """Asks for a number and gets a text."""

    kind = int
    size = 1

    def answer(self) -> Any:
        return "a text"


@dataclass(frozen=True)
class Defective(PlanQuestion[int]):
    """Asks for what cannot be."""

    kind = int
    size = 1

    def answer(self) -> int:
        return 1 // 0


@pytest.fixture
async def planner() -> AsyncIterator[Planner]:
    async with Planner(MEMORY, 0.5) as planner:
        yield planner


async def asked(planner: Planner, question: AnyPlanQuestion, namespace: str = "models") -> Any:
    """The answer, once it is known."""
    answered = asyncio.Event()
    planner.ask(Key(namespace, repr(question)[:50]), question, lambda _: answered.set())
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


async def test_answers_are_those_that_this_process_would_give(planner: Planner) -> None:
    for name, question in QUESTIONS.items():
        assert await asked(planner, question) == compute_answer(question), name


async def test_no_forecast_is_an_answer(planner: Planner) -> None:
    impossible = BucketPolicy(strategy="file", file="nothing")
    assert await asked(planner, ForecastQuestion(impossible, forecast_question(inference()).inputs, None, 9)) is None


async def test_impossible_plan_has_its_sentence(planner: Planner) -> None:
    policy = BucketPolicy(strategy="file", file="nothing")
    with pytest.raises(PlanImpossible, match="bucket file, line 1: not a tuple of three elements"):
        await asked(planner, AdmissionFiguresQuestion(policy, LIMITS, 200, 100, 100, 1024, None))


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (Endless(), "took more than 0.5 s of processor time"),
        (Large(), "took more than 200 MiB of memory"),
        (Deadly(), "ended the process that did it with -9"),
        (Deadly(signal.SIGSEGV), "ended the process that did it with -11"),
        (Mistyped(), "gave an answer that cannot be read"),
        (Defective(), "met a defect of the operator \\(ZeroDivisionError: "),
    ],
    ids=["time", "memory", "killed", "fault", "type", "defect"],
)
async def test_question_that_cannot_be_answered_is_too_expensive(
    planner: Planner, question: AnyPlanQuestion, sentence: str
) -> None:
    with pytest.raises(PlanTooExpensive, match=sentence):
        await asked(planner, question)
    assert isinstance(await asked(planner, FIGURES), AdmissionFigures)


async def test_question_is_known_while_others_wait(planner: Planner) -> None:
    await asked(planner, FIGURES)
    planner.ask(Key("others", "endless"), Endless(), lambda _: None)
    assert isinstance(planner.answers.get(FIGURES), AdmissionFigures)
    with pytest.raises(Unanswered):
        planner.answers.get(Endless())


async def test_planner_ends_whatever_is_in_work() -> None:
    async with Planner(MEMORY, 60) as planner:
        await asked(planner, FIGURES)
        planner.ask(Key("models", "endless"), Endless(), lambda _: None)
        process = planner._process
    assert process
    assert process.returncode == -signal.SIGKILL


def turns(*keys: str) -> list[str]:
    """The order in which `namespace/name` get their turn."""
    queue = QuestionQueue()
    for number, key in enumerate(keys):
        queue.add(PendingQuestion(Key(*key.split("/")), number, print))
    found = []
    while asked := queue.next():
        found.append("/".join(asked.key))
    return found


def test_namespaces_take_turns() -> None:
    assert turns("a/1", "a/2", "a/3", "b/1", "c/1", "b/2") == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]


def test_resource_waits_with_its_last_question_alone() -> None:
    assert turns("a/1", "a/1", "a/1", "b/1") == ["a/1", "b/1"]


def test_nobody_waits_in_an_empty_queue() -> None:
    assert turns() == []
