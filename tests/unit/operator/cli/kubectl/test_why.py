"""`kubectl gaudi why`: one cause, the evidence for it, and the next command."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from gaudi_operator.cli.kubectl.terminal import paragraphs
from gaudi_operator.cli.kubectl.why import explain, explanation_lines
from tests.support.builders import Object
from tests.unit.operator.cli.kubectl.kept import shown

READY = ("Ready", True, "Serving", "All 2 replicas serve revision a.")
WAITS = ("Ready", False, "Unschedulable", "Pod tiny-a-x finds no node.")
STALLED = ("Stalled", True, "Unschedulable", "Pod tiny-a-x is unschedulable: 0/3 nodes are available.")
REFUSED = ("PlanAccepted", False, "PlanImpossible", "No KV block fits.")
POD: Object = {"name": "tiny-a-x", "revision": "a", "phase": "Pending", "gate": False, "ready": False}
SERVING: Object = {"name": "tiny-a-y", "revision": "a", "phase": "Serving", "gate": True, "ready": True}


def text(resource: Object) -> list[str]:
    return list(explanation_lines("tiny", explain(resource)))


def test_ready_resource_has_only_a_heading() -> None:
    assert text(shown(READY)) == ['gaudiinference "tiny" is Ready (Serving): All 2 replicas serve revision a.']


def test_each_sentence_has_its_own_line() -> None:
    rolled_back = ("Stalled", True, "RolledBack", "Revision b failed: 2.5 GiB are missing. Revision a runs. Change it.")
    assert text(shown(WAITS, rolled_back))[:4] == [
        'gaudiinference "tiny" is not Ready (RolledBack):',
        "  Revision b failed: 2.5 GiB are missing.",
        "  Revision a runs.",
        "  Change it.",
    ]


def test_ready_resource_lists_its_unexpected_conditions() -> None:
    cold = ("BucketCoverage", False, "ColdShapes", "Requests met shapes without a warm graph.")
    assert text(shown(READY, cold))[1:] == [
        "but:",
        "  BucketCoverage: ColdShapes: Requests met shapes without a warm graph.",
    ]


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
    assert found.evidence == (
        "pod tiny-a-x: Pending, warm-up 0 %, readiness gate closed, 2 restarts",
        "pod tiny-a-x: no card is free",
        "pod tiny-a-x: exit code 1",
    )
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
    old = {**POD, "name": "tiny-b-x", "revision": "b"}
    found = explain(shown(WAITS, STALLED, pods=[old, POD]))
    assert found.evidence == ("pod tiny-a-x: Pending, warm-up 0 %, readiness gate closed, 0 restarts",)


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
        "pod tiny-a-x: Pending, warm-up 0 %, readiness gate closed, 0 restarts",
    )


def test_wrapped_lines_keep_their_indent() -> None:
    out = StringIO()
    for each in paragraphs(["evidence:", f"  pod a: {'word ' * 12}"]):
        Console(file=out, width=40).print(each)
    title, *below = out.getvalue().splitlines()
    assert title == "evidence:"
    assert len(below) == 2
    assert all(line.startswith("  ") and len(line.rstrip()) <= 40 for line in below)


def test_no_command_names_a_pod_if_no_pod_exists() -> None:
    assert all("pod " not in each for each in explain(shown(WAITS, STALLED)).next)


def test_unobserved_generation_is_the_reason() -> None:
    assert explain(shown(READY, observedGeneration=1)).reason == "NotObserved"


def test_control_characters_in_messages_are_escaped() -> None:
    pod = {**POD, "message": "\x1b]52;c;aGk=\x07"}
    assert all(line.isprintable() for line in text(shown(WAITS, STALLED, pods=[pod])))
