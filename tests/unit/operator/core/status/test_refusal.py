"""A request that the API server refused is shown on the resource, regardless of other problems."""

import pytest

from gaudi_operator.api.v1alpha1.status import Condition, GaudiInferenceStatus
from gaudi_operator.core.actions import Decision, Event
from gaudi_operator.core.status.refusal import add_refusal_to_status
from gaudi_runtime.errors import Problem
from tests.world.clock import moment, stamp

REFUSED = Problem("NameTaken", "a Service of that name is not ours")


def condition(kind: str, status: str, reason: str, at: float = 0) -> Condition:
    return Condition.model_validate(
        {"type": kind, "status": status, "reason": reason, "message": reason, "lastTransitionTime": stamp(at)}
    )


def shown(*conditions: Condition) -> GaudiInferenceStatus:
    return GaudiInferenceStatus(conditions=conditions)


DECIDED = Decision(
    actions=(),
    status=GaudiInferenceStatus(
        replicas=2,
        observed_generation=3,
        conditions=(condition("Ready", "True", "Serving"), condition("WarmedUp", "True", "AllCaptured")),
    ),
    events=(Event("Normal", "RolloutDone", "done"),),
    requeue_after=None,
)


def test_refusal_is_the_reason_of_ready_and_stalled() -> None:
    status = add_refusal_to_status(DECIDED, shown(), REFUSED, moment(60)).status
    found = {each.type: (each.status, each.reason) for each in status.conditions}
    assert found["Ready"] == ("False", "NameTaken")
    assert found["Stalled"] == ("True", "NameTaken")
    assert found["Reconciling"] == ("False", "Stalled")


def test_reconciling_message_refers_to_the_stalled_condition() -> None:
    status = add_refusal_to_status(DECIDED, shown(), REFUSED, moment(60)).status
    (message,) = (each.message for each in status.conditions if each.type == "Reconciling")
    assert message == "The API server refused a request. The condition Stalled has the reason."


def test_refusal_keeps_other_status_fields() -> None:
    status = add_refusal_to_status(DECIDED, shown(), REFUSED, moment(60)).status
    assert status.replicas == 2
    assert condition("WarmedUp", "True", "AllCaptured") in status.conditions


def test_refusal_conditions_have_the_decided_generation() -> None:
    status = add_refusal_to_status(DECIDED, shown(), REFUSED, moment(60)).status
    assert {each.observed_generation for each in status.conditions if each.type != "WarmedUp"} == {3}


@pytest.mark.parametrize("before", [(), ("Stalled", "True", "ApiRefused"), ("Ready", "False", "NameTaken")])
def test_new_refusal_is_a_warning_after_the_decided_events(before: tuple[str, str, str] | tuple[()]) -> None:
    known = [condition(*before)] if before else []
    *earlier, news = add_refusal_to_status(DECIDED, shown(*known), REFUSED, moment(60)).events
    assert tuple(earlier) == DECIDED.events
    assert news == Event("Warning", "NameTaken", REFUSED.message)


def test_known_refusal_is_not_published_again() -> None:
    before = shown(condition("Stalled", "True", "NameTaken"))
    assert add_refusal_to_status(DECIDED, before, REFUSED, moment(60)).events == DECIDED.events


def test_known_refusal_keeps_its_transition_time() -> None:
    before = shown(condition("Stalled", "True", "NameTaken", at=5))
    status = add_refusal_to_status(DECIDED, before, REFUSED, moment(60)).status
    assert next(each for each in status.conditions if each.type == "Stalled").last_transition_time == stamp(5)
