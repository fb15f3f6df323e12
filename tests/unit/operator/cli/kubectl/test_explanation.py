"""The explanation of `kubectl gaudi status`: one cause, the evidence for it, and the next command."""

from typing import Any

import pytest

from gaudi_operator.cli.kubectl.explanation import explain
from tests.support.builders import Object
from tests.unit.operator.cli.kubectl.kept import shown

READY = ("Ready", True, "Serving", "All 2 replicas serve revision a.")
WAITS = ("Ready", False, "Unschedulable", "Pod tiny-a-x finds no node.")
STALLED = ("Stalled", True, "Unschedulable", "Pod tiny-a-x is unschedulable: 0/3 nodes are available.")
REFUSED = ("PlanAccepted", False, "PlanImpossible", "No KV block fits.")
POD: Object = {"name": "tiny-a-x", "revision": "a", "phase": "Pending", "gate": False, "ready": False}
SERVING: Object = {"name": "tiny-a-y", "revision": "a", "phase": "Serving", "gate": True, "ready": True}


def test_ready_resource_has_no_evidence() -> None:
    found = explain(shown(READY))
    assert (found.ready, found.reason, found.evidence) == (True, "Serving", ())


def test_ready_resource_lists_its_unexpected_conditions() -> None:
    cold = ("BucketCoverage", False, "ColdShapes", "Requests met shapes without a warm graph.")
    assert explain(shown(READY, cold)).evidence == (
        "BucketCoverage: ColdShapes: Requests met shapes without a warm graph.",
    )


PROBLEMS = {
    ("BucketCoverage", False, "ColdShapes"): ["kubectl gaudi plan learn tiny -n models"],
    ("BucketCoverage", False, "BucketsMissing"): [
        "gaudi-plan forecast --from-cluster tiny -n models",
        "kubectl edit gi tiny -n models",
    ],
    ("Degraded", True, "ReplicasLost"): ["kubectl describe pods -n models -l inference.gaudi.dev/name=tiny"],
    ("ClassApplied", False, "ClassChanged"): ["kubectl gaudi rollout restart tiny -n models"],
    ("ClassApplied", False, "ClassWouldRefuse"): [
        "kubectl edit gi tiny -n models",
        "kubectl events --for gi/tiny -n models",
    ],
    ("AutoscalerActive", False, "FailedGetPodsMetric"): ["kubectl describe hpa tiny -n models"],
    ("Available", True, "MinimumAvailable"): ["kubectl gaudi plan learn tiny -n models"],
}
"""Conditions of a Ready resource (type, holds, reason) with the next commands. The last one is no problem."""


def test_ready_resource_has_a_next_command_for_each_problem() -> None:
    found = {key: list(explain(shown(READY, (*key, "A sentence."))).next) for key in PROBLEMS}
    assert found == PROBLEMS


def test_resource_without_replicas_has_a_command_that_scales_up() -> None:
    scaled = ("Ready", True, "ScaledToZero", "No replica is desired.")
    assert explain(shown(scaled)).next == ("kubectl scale gi tiny -n models --replicas=1",)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [((WAITS,), "Unschedulable"), ((WAITS, REFUSED), "PlanImpossible"), ((WAITS, REFUSED, STALLED), "Unschedulable")],
)
def test_condition_that_requires_an_action_comes_first(conditions: Any, reason: str) -> None:
    assert explain(shown(*conditions)).reason == reason


def test_evidence_describes_the_pod_that_is_not_serving() -> None:
    pod = {
        **POD,
        "message": "no card is free",
        "lastTermination": {"reason": "Error", "message": "exit code 1"},
        "restarts": 2,
    }
    found = explain(shown(WAITS, STALLED, pods=[SERVING, pod]))
    assert found.evidence == ("pod tiny-a-x: no card is free", "pod tiny-a-x: exit code 1")
    assert found.next == ("kubectl describe pod tiny-a-x -n models",)


def test_failed_revision_is_evidence() -> None:
    failed = {"name": "b", "number": 2, "phase": "Failed", "reason": "WarmupStalled", "message": "Nothing has moved."}
    rolled_back = ("Stalled", True, "RolledBack", "Revision b failed.")
    found = explain(shown(WAITS, rolled_back, revisions=[failed]))
    assert found.evidence == ("revision b failed (WarmupStalled): Nothing has moved.",)
    assert found.next == ("kubectl gaudi rollout history tiny -n models", "kubectl gaudi rollout undo tiny -n models")


def test_unrelated_failed_revision_is_not_evidence() -> None:
    failed = {"name": "b", "number": 2, "phase": "RolledBack", "reason": "WarmupStalled", "message": "Nothing moved."}
    assert explain(shown(WAITS, STALLED, revisions=[failed])).evidence == ()


BACK_OFF = {"failures": 4, "since": "2026-08-01T12:07:12Z", "until": "2026-08-01T12:07:52Z"}
RETRY = "revision a: 4 attempts have ended, and the next attempt starts at 2026-08-01T12:07:52Z"


@pytest.mark.parametrize(("phase", "name"), [("RollingOut", "a"), ("Serving", "b")])
def test_retry_of_a_current_or_serving_revision_is_evidence(phase: str, name: str) -> None:
    tried = {"name": name, "number": 2, "phase": phase, "backOff": BACK_OFF}
    assert explain(shown(WAITS, revisions=[tried])).evidence == (RETRY.replace("a:", f"{name}:"),)


def test_failed_revision_has_no_next_attempt() -> None:
    failed = {"name": "b", "number": 2, "phase": "RolledBack", "reason": "CrashLoopBackOff", "backOff": BACK_OFF}
    rolled_back = ("Stalled", True, "RolledBack", "Revision b failed.")
    assert explain(shown(WAITS, rolled_back, revisions=[failed])).evidence == ("revision b failed (CrashLoopBackOff)",)


def test_pod_of_an_older_revision_is_not_evidence() -> None:
    pod = {**POD, "message": "no card is free"}
    old = {**pod, "name": "tiny-b-x", "revision": "b"}
    assert explain(shown(WAITS, STALLED, pods=[old, pod])).evidence == ("pod tiny-a-x: no card is free",)


def test_equal_messages_of_waiting_pods_are_merged() -> None:
    pod = {**POD, "message": "no card is free"}
    serving = {**SERVING, "message": "no card is free"}
    found = explain(shown(WAITS, STALLED, pods=[pod, {**pod, "name": "tiny-a-z"}, serving]))
    assert found.evidence == ("pod tiny-a-x, tiny-a-z: no card is free",)


def test_pod_named_in_the_cause_comes_first() -> None:
    other = {**POD, "name": "tiny-a-w"}
    found = explain(shown(WAITS, STALLED, pods=[other, POD]))
    assert found.next == ("kubectl describe pod tiny-a-x -n models",)


def test_evidence_does_not_repeat_sentences() -> None:
    failed = {"name": "b", "number": 2, "phase": "Failed", "reason": "WarmupStalled", "message": "Nothing has moved."}
    rolled_back = ("Stalled", True, "RolledBack", "Revision b failed (WarmupStalled): Nothing has moved.")
    waits = {**POD, "message": "Nothing has moved."}
    assert explain(shown(WAITS, rolled_back, revisions=[failed], pods=[waits])).evidence == (
        "revision b failed (WarmupStalled)",
    )


def test_no_command_names_a_pod_if_no_pod_exists() -> None:
    assert all("pod " not in each for each in explain(shown(WAITS, STALLED)).next)


def test_unobserved_generation_is_the_reason() -> None:
    assert explain(shown(READY, observedGeneration=1)).reason == "NotObserved"


def test_control_characters_in_messages_are_escaped() -> None:
    pod = {**POD, "message": "\x1b]52;c;aGk=\x07"}
    assert all(line.isprintable() for line in explain(shown(WAITS, STALLED, pods=[pod])).evidence)
