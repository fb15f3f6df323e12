"""Events about conditions, revisions and gates: which changes are published, and how often."""

from dataclasses import replace

import pytest

from gaudi_operator.api.v1alpha1.status import Condition, GaudiInferenceStatus, Revisions
from gaudi_operator.core.actions import Event, SetGate
from gaudi_operator.core.gate.condition import pods_with_gate_conditions
from gaudi_operator.core.status.conditions import FALSE, TRUE, Verdict, build_conditions
from gaudi_operator.core.status.events import status_events
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import serving, warming

NOTHING = GaudiInferenceStatus()


def with_condition(kind: str, verdict: Verdict) -> GaudiInferenceStatus:
    conditions: tuple[Condition, ...] = build_conditions([(kind, verdict)], (), 1, NOW)
    return GaudiInferenceStatus(conditions=conditions)


@pytest.mark.parametrize(
    ("kind", "verdict", "expected"),
    [
        ("Ready", Verdict(TRUE, "Serving", "All serve."), Event("Normal", "Ready", "All serve.")),
        ("WarmedUp", Verdict(TRUE, "WarmedUp", "All passed."), Event("Normal", "WarmedUp", "All passed.")),
        ("PlanAccepted", Verdict(FALSE, "NotBuilt", "Not built."), Event("Warning", "PlanRefused", "Not built.")),
        ("Stalled", Verdict(TRUE, "NotBuilt", "Not built."), Event("Warning", "Stalled", "NotBuilt: Not built.")),
        ("Degraded", Verdict(TRUE, "ReplicasLost", "1 lost."), Event("Warning", "Degraded", "1 lost.")),
        ("BucketCoverage", Verdict(FALSE, "ColdShapes", "Cold."), Event("Warning", "ColdShapes", "Cold.")),
        ("BucketCoverage", Verdict(FALSE, "SamplerCompiled", "Wait."), Event("Warning", "SamplerCompiled", "Wait.")),
        ("BucketCoverage", Verdict(FALSE, "BucketsMissing", "Gaps."), Event("Warning", "BucketsMissing", "Gaps.")),
    ],
)
def test_condition_change_is_published_once(kind: str, verdict: Verdict, expected: Event) -> None:
    after = with_condition(kind, verdict)
    assert status_events(NOTHING, after, ()) == (expected,)
    assert status_events(after, after, ()) == ()


def test_immediately_ready_resource_has_only_a_ready_event() -> None:
    verdicts = [
        ("WarmedUp", Verdict(TRUE, "WarmedUp", "All passed.")),
        ("Ready", Verdict(TRUE, "Serving", "All serve.")),
    ]
    after = GaudiInferenceStatus(conditions=build_conditions(verdicts, (), 1, NOW))
    assert status_events(NOTHING, after, ()) == (Event("Normal", "Ready", "All serve."),)


@pytest.mark.parametrize("kind", ["Ready", "WarmedUp", "PlanAccepted", "Stalled", "Degraded", "Reconciling"])
def test_condition_change_to_its_normal_status_has_no_event(kind: str) -> None:
    usual = FALSE if kind in ("Ready", "WarmedUp", "Stalled", "Degraded", "Reconciling") else TRUE
    assert status_events(NOTHING, with_condition(kind, Verdict(usual, "Usual", "As usual.")), ()) == ()


def test_new_reason_of_a_stall_is_published() -> None:
    before = with_condition("Stalled", Verdict(TRUE, "NotBuilt", "Not built."))
    after = with_condition("Stalled", Verdict(TRUE, "PlanImpossible", "No bucket."))
    assert status_events(before, after, ()) == (Event("Warning", "Stalled", "PlanImpossible: No bucket."),)


def test_new_message_of_the_same_reason_is_not_published() -> None:
    before = with_condition("Stalled", Verdict(TRUE, "Unschedulable", "0/1 nodes."))
    after = with_condition("Stalled", Verdict(TRUE, "Unschedulable", "0/2 nodes."))
    assert status_events(before, after, ()) == ()


def test_different_fault_of_a_refused_spec_is_published() -> None:
    before = with_condition("PlanAccepted", Verdict(FALSE, "SettingsWrong", "VLLM_A is unknown."))
    after = with_condition("PlanAccepted", Verdict(FALSE, "SettingsWrong", "VLLM_B is unknown."))
    assert status_events(before, after, ()) == (Event("Warning", "PlanRefused", "VLLM_B is unknown."),)


def test_new_desired_revision_is_published_once() -> None:
    after = GaudiInferenceStatus(revision=Revisions(current="r2"))
    assert status_events(NOTHING, after, ()) == (
        Event("Normal", "RevisionDesired", "The operator rolls out revision r2."),
    )
    assert status_events(after, after, ()) == ()


@pytest.mark.parametrize(
    ("opened", "kind", "reason"), [(True, "Normal", "GateOpened"), (False, "Warning", "GateClosed")]
)
def test_gate_change_is_published(opened: bool, kind: str, reason: str) -> None:
    gate = SetGate("a", "uid-of-a", opened, "Because", "It is so.")
    (published,) = status_events(NOTHING, NOTHING, (gate,))
    assert (published.type, published.reason, published.message) == (kind, reason, "Pod a: It is so.")


ONE_OF_MANY = SetGate("a", "uid-of-a", True, "WarmedUp", "It is so.")


@pytest.mark.parametrize(
    ("gate", "others", "published"),
    [
        (ONE_OF_MANY, False, ["GateOpened"]),
        (ONE_OF_MANY, True, []),
        (replace(ONE_OF_MANY, is_rewrite=True), True, ["GateOpened"]),
        (replace(ONE_OF_MANY, reason="OpenedBelowThreshold"), True, ["GateOpened"]),
        (replace(ONE_OF_MANY, open=False, reason="NotServing"), True, ["GateClosed"]),
    ],
    ids=["first", "between", "once more", "below", "closed"],
)
def test_gate_between_the_first_and_the_last_is_not_published(
    gate: SetGate, others: bool, published: list[str]
) -> None:
    pods = pods_with_gate_conditions([warming("a"), serving("b") if others else warming("b")], [gate], NOW)
    assert [each.reason for each in status_events(NOTHING, NOTHING, (gate,), pods, 3)] == published


def test_last_gate_is_published_with_the_warmed_up_event() -> None:
    pod = warming("a")
    gate = SetGate(pod.name, pod.uid, True, "WarmedUp", "All is captured. Container c, instance i, plan p.")
    warm = with_condition("WarmedUp", Verdict(TRUE, "WarmedUp", "All passed."))
    opened = pods_with_gate_conditions([pod], [gate], NOW)
    assert status_events(NOTHING, NOTHING, (gate,), opened, 1) == ()
    published = Event("Normal", "WarmedUp", "All passed. Pod a: All is captured.")
    assert status_events(NOTHING, warm, (), opened, 1) == (published,)


def test_gate_after_the_first_warm_up_has_a_separate_event() -> None:
    gate = SetGate("a", "uid-of-a", True, "WarmedUp", "All is captured.")
    warm = with_condition("WarmedUp", Verdict(TRUE, "WarmedUp", "All passed."))
    assert [each.reason for each in status_events(warm, warm, (gate,), [serving()], 1)] == ["GateOpened"]
