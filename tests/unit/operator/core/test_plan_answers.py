"""The bounded cache of answers about plans: its questions and refusals, and decisions that wait for an answer."""

from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.admission.spec_forecast import cached_forecast, forecast_plan, forecast_question
from gaudi_operator.core.decide import decide
from gaudi_operator.core.plan_answers import (
    AnswerNotComputed,
    CachedRefusal,
    PlanAnswers,
    PlanQuestion,
    PlanTooExpensive,
    SynchronousAnswers,
    compute_answer,
)
from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.errors import PlanImpossible
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import DEFAULTS, inference, resource
from tests.unit.operator.core.stories import condition, served, status

T = TypeVar("T")
ASKED: list[str] = []
NO_POLICY = BucketPolicy()


@dataclass(frozen=True)
class Uppercase(PlanQuestion[str]):
    """A question whose answer is a word in capitals. Bad words are refused."""

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
def _forget_questions() -> None:
    ASKED.clear()


def test_unanswered_question_raises_an_exception() -> None:
    with pytest.raises(AnswerNotComputed) as raised:
        PlanAnswers(10).get(Uppercase("good"))
    assert raised.value.question == Uppercase("good")


def test_answer_is_computed_once() -> None:
    answers = SynchronousAnswers(10)
    assert [answers.get(Uppercase("good")) for _ in range(3)] == ["GOOD"] * 3
    assert ASKED == ["good"]


def test_refusal_is_computed_once_and_raised_each_time() -> None:
    answers = SynchronousAnswers(10)
    for _ in range(3):
        with pytest.raises(PlanImpossible, match="here: bad is impossible"):
            answers.get(Uppercase("bad"))
    assert ASKED == ["bad"]


def test_least_recently_used_answer_is_dropped_first() -> None:
    answers = SynchronousAnswers(3)
    for word in ("a", "b", "c", "a", "d", "a", "c", "d"):
        answers.get(Uppercase(word))
    assert ASKED == ["a", "b", "c", "d"]
    answers.get(Uppercase("b"))
    assert ASKED[4:] == ["b"]


def test_large_answer_evicts_all_others() -> None:
    answers = SynchronousAnswers(3)
    for question in (Uppercase("a"), Uppercase("large", 5), Uppercase("large", 5), Uppercase("a")):
        answers.get(question)
    assert ASKED == ["a", "large", "a"]


def test_replaced_answer_does_not_use_more_space() -> None:
    answers = SynchronousAnswers(3)
    answers.get(Uppercase("a"))
    for _ in range(5):
        answers.store(Uppercase("b"), "B")
    answers.get(Uppercase("a"))
    assert ASKED == ["a"]


def test_long_text_is_stored_as_digest() -> None:
    answers = SynchronousAnswers(10)
    long, other = (Uppercase("a", policy=BucketPolicy(strategy="file", file=text * 60_000)) for text in "xy")
    answers.get(long)
    assert answers.get(replace(long)) == "A"
    assert ASKED == ["a"]
    answers.get(other)
    assert ASKED == ["a", "a"]
    assert all(len(str(question)) < 2_000 for question in answers._answers)


class TooExpensive(PlanAnswers):
    """A cache that refuses every plan as too expensive."""

    def get(self, question: PlanQuestion[T]) -> T:
        raise PlanTooExpensive("took more than 1 s of processor time")


def test_decision_waiting_for_an_answer_has_no_actions() -> None:
    cluster = Cluster(resource())
    decision = decide(cluster.observed(), DEFAULTS, PlanAnswers(2**20))
    assert decision.question is not None
    assert not decision.actions
    assert not decision.events


def test_decision_with_cached_answers_equals_the_direct_decision() -> None:
    cluster, answers = Cluster(resource()), PlanAnswers(2**20)
    for _ in range(10):
        decision = decide(cluster.observed(), DEFAULTS, answers)
        if decision.question is None:
            break
        answers.store(decision.question, compute_answer(decision.question))
    assert decision == decide(cluster.observed(), DEFAULTS)


@pytest.mark.parametrize("answers", [PlanAnswers(2**20), TooExpensive(2**20)], ids=["unanswered", "too expensive"])
def test_gate_opens_while_the_plan_is_unknown(answers: PlanAnswers) -> None:
    cluster = served(replicas=1)
    [pod] = cluster.kind("Pod")
    pod["status"]["conditions"] = [each for each in pod["status"]["conditions"] if "warmed" not in each["type"]]
    decision = decide(cluster.observed(), DEFAULTS, answers)
    assert [each.open for each in decision.actions if isinstance(each, SetGate)] == [True]
    assert "GateOpened" in [each.reason for each in decision.events]


def test_event_of_the_last_gate_waits_for_the_status() -> None:
    cluster = served(replicas=1)
    [pod] = cluster.kind("Pod")
    pod["status"]["conditions"] = [each for each in pod["status"]["conditions"] if "warmed" not in each["type"]]
    [warmed_up] = [each for each in status(cluster)["conditions"] if each["type"] == "WarmedUp"]
    warmed_up["status"] = "False"
    decision = decide(cluster.observed(), DEFAULTS, PlanAnswers(2**20))
    assert [each.open for each in decision.actions if isinstance(each, SetGate)] == [True]
    assert not decision.events


def test_too_expensive_plan_is_refused_with_a_message() -> None:
    cluster = Cluster(resource())
    cluster.operate(TooExpensive(2**20))
    assert condition(cluster, "PlanAccepted") == ("False", "PlanTooExpensive")
    [accepted] = [each for each in status(cluster)["conditions"] if each["type"] == "PlanAccepted"]
    assert accepted["message"] == (
        "spec.bucketing: the computation of this plan took more than 1 s of processor time and was stopped. Choose "
        "larger steps, fewer buckets or another strategy. The operator retries when the spec changes."
    )
    assert not cluster.kind("ReplicaSet")


def test_too_expensive_plan_keeps_serving_pods() -> None:
    cluster = served()
    before = cluster.kind("Pod"), cluster.kind("ReplicaSet")
    cluster.change(engine={"maxNumSeqs": 7})
    cluster.operate(TooExpensive(2**20))
    assert condition(cluster, "PlanAccepted") == ("False", "PlanTooExpensive")
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")
    assert (cluster.kind("Pod"), cluster.kind("ReplicaSet")) == before


def test_refusal_keeps_type_and_arguments_of_the_exception() -> None:
    assert compute_answer(Uppercase("bad")) == CachedRefusal(PlanImpossible, ("bad is impossible", "here"))


class Counted(SynchronousAnswers):
    """A cache of answers that counts the questions."""

    def __init__(self) -> None:
        """Create a cache that has counted no question."""
        super().__init__(2**20)
        self.count = 0

    def get(self, question: PlanQuestion[T]) -> T:
        """Count the question and return its answer."""
        self.count += 1
        return super().get(question)


def test_each_forecast_is_requested_once() -> None:
    answers = Counted()
    one = replace(inference(), answers=answers)
    found = [forecast_plan(one, blocks) for blocks in (None, 7, None, 7)]
    assert found[0] == found[2] != found[1] == found[3]
    assert answers.count == 2


def test_too_expensive_forecast_has_no_answer() -> None:
    answers = PlanAnswers(2**20)
    one = replace(inference(), answers=answers)
    answers.store(forecast_question(one), CachedRefusal(PlanTooExpensive, ()))
    assert forecast_plan(one) is None
    with pytest.raises(PlanTooExpensive):
        cached_forecast(one)


def test_forecast_for_other_blocks_is_a_different_question() -> None:
    one = inference()
    asked = [forecast_question(one), forecast_question(one, 7), forecast_question(one, 7, 256)]
    assert [each.inputs.kv_blocks for each in asked] == [None, 7, 7]
    assert asked[2].inputs.limits.block_size == 256 != asked[1].inputs.limits.block_size
