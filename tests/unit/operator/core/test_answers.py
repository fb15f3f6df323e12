"""Answers about plans: known until others need the room, refusals too; and decisions that wait for one."""

from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.answers import (
    PlanAnswers,
    PlanQuestion,
    PlanTooExpensive,
    Refusal,
    SynchronousAnswers,
    Unanswered,
    compute_answer,
)
from gaudi_operator.core.decide import decide
from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.errors import PlanImpossible
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import DEFAULTS, resource
from tests.unit.operator.core.stories import condition, served, status

T = TypeVar("T")
ASKED: list[str] = []
NO_POLICY = BucketPolicy()


@dataclass(frozen=True)
class Louder(PlanQuestion[str]):
    """Asks for a word in capitals; of bad words there are none."""

    kind = str
    word: str
    size: int = 1
    policy: BucketPolicy = NO_POLICY

    def answer(self) -> str:
        ASKED.append(self.word)
        if self.word.startswith("bad"):
            raise PlanImpossible(f"{self.word} is impossible", "here")
        return self.word.upper()


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    ASKED.clear()


def test_question_without_an_answer_is_raised() -> None:
    with pytest.raises(Unanswered) as raised:
        PlanAnswers(10).get(Louder("good"))
    assert raised.value.question == Louder("good")


def test_answer_is_worked_out_once() -> None:
    answers = SynchronousAnswers(10)
    assert [answers.get(Louder("good")) for _ in range(3)] == ["GOOD"] * 3
    assert ASKED == ["good"]


def test_refusal_is_worked_out_once_and_raised_each_time() -> None:
    answers = SynchronousAnswers(10)
    for _ in range(3):
        with pytest.raises(PlanImpossible, match="here: bad is impossible"):
            answers.get(Louder("bad"))
    assert ASKED == ["bad"]


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    answers = SynchronousAnswers(3)
    for word in ("a", "b", "c", "a", "d", "a", "c", "d"):
        answers.get(Louder(word))
    assert ASKED == ["a", "b", "c", "d"]
    answers.get(Louder("b"))
    assert ASKED[4:] == ["b"]


def test_one_large_answer_takes_the_place_of_all_others() -> None:
    answers = SynchronousAnswers(3)
    for question in (Louder("a"), Louder("large", 5), Louder("large", 5), Louder("a")):
        answers.get(question)
    assert ASKED == ["a", "large", "a"]


def test_answer_that_is_known_anew_takes_no_more_room() -> None:
    answers = SynchronousAnswers(3)
    answers.get(Louder("a"))
    for _ in range(5):
        answers.keep(Louder("b"), "B")
    answers.get(Louder("a"))
    assert ASKED == ["a"]


def test_long_text_is_known_by_its_digest() -> None:
    answers = SynchronousAnswers(10)
    long, other = (Louder("a", policy=BucketPolicy(strategy="file", file=text * 60_000)) for text in "xy")
    answers.get(long)
    assert answers.get(replace(long)) == "A"
    assert ASKED == ["a"]
    answers.get(other)
    assert ASKED == ["a", "a"]
    assert all(len(str(question)) < 2_000 for question in answers._kept)


class TooExpensive(PlanAnswers):
    """Every plan is."""

    def get(self, question: PlanQuestion[T]) -> T:
        raise PlanTooExpensive("took more than 1 s of processor time")


def test_decision_that_waits_for_an_answer_changes_nothing() -> None:
    cluster = Cluster(resource())
    decision = decide(cluster.observed(), DEFAULTS, PlanAnswers(2**20))
    assert decision.question is not None
    assert not decision.actions
    assert not decision.events


def test_answered_questions_end_in_the_same_decision() -> None:
    cluster, answers = Cluster(resource()), PlanAnswers(2**20)
    for _ in range(10):
        decision = decide(cluster.observed(), DEFAULTS, answers)
        if decision.question is None:
            break
        answers.keep(decision.question, compute_answer(decision.question))
    assert decision == decide(cluster.observed(), DEFAULTS)


@pytest.mark.parametrize("answers", [PlanAnswers(2**20), TooExpensive(2**20)], ids=["unanswered", "too expensive"])
def test_gate_opens_whatever_is_known_of_the_plan(answers: PlanAnswers) -> None:
    cluster = served(replicas=1)
    [pod] = cluster.kind("Pod")
    pod["status"]["conditions"] = [each for each in pod["status"]["conditions"] if "warmed" not in each["type"]]
    decision = decide(cluster.observed(), DEFAULTS, answers)
    assert [each.open for each in decision.actions if isinstance(each, SetGate)] == [True]
    assert "GateOpened" in [each.reason for each in decision.events]


def test_gate_that_ends_a_warm_up_waits_for_the_status() -> None:
    cluster = served(replicas=1)
    [pod] = cluster.kind("Pod")
    pod["status"]["conditions"] = [each for each in pod["status"]["conditions"] if "warmed" not in each["type"]]
    [warmed_up] = [each for each in status(cluster)["conditions"] if each["type"] == "WarmedUp"]
    warmed_up["status"] = "False"
    decision = decide(cluster.observed(), DEFAULTS, PlanAnswers(2**20))
    assert [each.open for each in decision.actions if isinstance(each, SetGate)] == [True]
    assert not decision.events


def test_too_expensive_a_plan_is_refused_in_a_sentence() -> None:
    cluster = Cluster(resource())
    cluster.operate(TooExpensive(2**20))
    assert condition(cluster, "PlanAccepted") == ("False", "PlanTooExpensive")
    [accepted] = [each for each in status(cluster)["conditions"] if each["type"] == "PlanAccepted"]
    assert accepted["message"] == (
        "spec.bucketing: working out this plan took more than 1 s of processor time, and was given up: choose larger "
        "steps, fewer buckets or another strategy. It is tried again when the spec changes."
    )
    assert not cluster.kind("ReplicaSet")


def test_too_expensive_a_plan_leaves_serving_pods_untouched() -> None:
    cluster = served()
    before = cluster.kind("Pod"), cluster.kind("ReplicaSet")
    cluster.change(engine={"maxNumSeqs": 7})
    cluster.operate(TooExpensive(2**20))
    assert condition(cluster, "PlanAccepted") == ("False", "PlanTooExpensive")
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")
    assert (cluster.kind("Pod"), cluster.kind("ReplicaSet")) == before


def test_refusal_in_a_process_has_its_arguments() -> None:
    assert compute_answer(Louder("bad")) == Refusal(PlanImpossible, ("bad is impossible", "here"))
