"""The termination of a container stays known after the container and its report are gone."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, LastTermination, PodState
from gaudi_operator.core.observed import ObservedReport
from gaudi_operator.core.pods.terminations import pod_terminations, terminations_by_pod
from gaudi_runtime.contract.report import Phase, PhaseProgressReport, RuntimeFailureReport
from tests.support.builders import Object
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW

SEGFAULT = {"terminated": {"reason": "Error", "exitCode": 139, "message": "compiling\nSegmentation fault"}}
COMPILING = report(Phase.COMPILING, prompt=PhaseProgressReport(planned=8, current=(1, 128, 0)))
FOUND = "In phase Compiling at prompt bucket (1, 128, 0): Error, exit code 139: Segmentation fault"
FACTS = LastTermination(
    reason="Error", exit_code=139, phase="Compiling", bucket="prompt bucket (1, 128, 0)", message=FOUND
)


def found(manifest: Object, said_by: str | None = None, **row: Any) -> str | None:
    word = {} if said_by is None else {"uid-of-a": ObservedReport(said_by, NOW, COMPILING)}
    known = {"name": "a", "revision": "r1", "phase": "Pending", "gate": False, "ready": False, **row}
    before = GaudiInferenceStatus(pods=(PodState(**known),))
    ended = terminations_by_pod([view(manifest)], before, word).get("a")
    return ended.message if ended else None


def evicted(**status: Any) -> Object:
    """Return an evicted pod, which has no container anymore."""
    manifest = pod(container=None, phase="Failed")
    manifest["status"] |= {"reason": "Evicted", "startTime": "2026-08-01T11:30:00Z", **status}
    return manifest


def test_termination_phase_comes_from_the_last_report() -> None:
    assert found(pod(state=SEGFAULT), said_by="c1") == FOUND


def test_failure_reported_before_the_termination_is_included() -> None:
    lost = RuntimeFailureReport(reason="EngineLost", message="Worker 3 died.")
    word = {"uid-of-a": ObservedReport("c1", NOW, report(Phase.FAILED, failure=lost))}
    known = terminations_by_pod([view(pod(state=SEGFAULT))], GaudiInferenceStatus(), word)
    assert known["a"].message.startswith("In phase Failed (EngineLost: Worker 3 died.): Error, exit code 139")


def test_termination_is_kept_while_the_next_container_warms_up() -> None:
    assert found(pod(container="c2", last_state=SEGFAULT), said_by="c2", last_termination=FACTS) == FOUND


def test_recorded_phase_is_used_without_the_report() -> None:
    assert found(pod(state=SEGFAULT), phase="Capturing") == (
        "In phase Capturing: Error, exit code 139: Segmentation fault"
    )


def test_recorded_termination_keeps_the_phase_of_the_status() -> None:
    row = PodState(name="a", revision="r1", phase="Capturing", gate=False, ready=False)
    ended = terminations_by_pod([view(pod(state=SEGFAULT))], GaudiInferenceStatus(pods=(row,)), {})["a"]
    assert ended.phase == Phase.CAPTURING


def test_recorded_termination_has_its_time() -> None:
    at = "2026-08-01T11:30:00Z"
    container = {"terminated": {**SEGFAULT["terminated"], "finishedAt": at}}
    for each in (pod(state=container), evicted(startTime=at)):
        assert terminations_by_pod([view(each)], GaudiInferenceStatus(), {})["a"].time == at


def test_report_of_the_next_container_is_not_used() -> None:
    word = {"uid-of-a": ObservedReport("c2", NOW, COMPILING)}
    row = PodState(name="a", revision="r1", phase="Compiling", gate=False, ready=False)
    restarted = view(pod(container="c2", last_state=SEGFAULT))
    ended = terminations_by_pod([restarted], GaudiInferenceStatus(pods=(row,)), word)["a"]
    assert ended == LastTermination(reason="Error", exit_code=139, message="Error, exit code 139: Segmentation fault")


def test_later_termination_replaces_the_recorded_one() -> None:
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    assert found(pod(container="c2", last_state=killed), last_termination=FACTS) == (
        "OOMKilled, exit code 137: the kernel killed the container because memory ran out"
    )


@pytest.mark.parametrize(("said", "reason"), [({}, "Evicted"), ({"reason": None}, "Failed")])
def test_recorded_termination_of_a_failed_pod_has_the_nodes_reason(said: dict[str, Any], reason: str) -> None:
    ended = terminations_by_pod([view(evicted(**said))], GaudiInferenceStatus(), {})["a"]
    assert (ended.reason, ended.exit_code) == (reason, None)


def test_recorded_termination_without_a_known_time_has_no_time() -> None:
    assert terminations_by_pod([view(evicted(startTime=None))], GaudiInferenceStatus(), {})["a"].time is None


def test_termination_message_of_a_failed_pod_has_its_phase() -> None:
    known = LastTermination(reason="Evicted", message="In phase Compiling: Evicted.")
    (end,) = pod_terminations([view(evicted())], {"a": known})
    assert end.message == known.message


def test_failed_pod_without_a_time_is_not_counted() -> None:
    assert pod_terminations([view(evicted(startTime=None))], {}) == []


@pytest.mark.parametrize(("terminating", "count"), [(False, 1), (True, 0)])
def test_failed_pod_without_a_reason_is_counted_unless_deleted(terminating: bool, count: int) -> None:
    manifest = pod(phase="Failed", state=SEGFAULT, terminating=terminating)
    manifest["status"]["startTime"] = "2026-08-01T11:30:00Z"
    assert len(pod_terminations([view(manifest)], {})) == count


def test_first_container_has_no_termination() -> None:
    assert found(pod(), said_by="c1") is None


def test_recorded_termination_is_kept_after_an_operator_restart() -> None:
    word = {"uid-of-a": ObservedReport("c1", NOW, COMPILING)}
    first = terminations_by_pod([view(pod(state=SEGFAULT))], GaudiInferenceStatus(), word)["a"]
    row = PodState(
        name="a",
        revision="r1",
        phase="CrashLoopBackOff",
        gate=False,
        ready=False,
        last_termination=first,
    )
    later = terminations_by_pod([view(pod(state=SEGFAULT))], GaudiInferenceStatus(pods=(row,)), {})["a"]
    assert later == first
    assert (later.phase, later.bucket) == (Phase.COMPILING, "prompt bucket (1, 128, 0)")
    assert (later.reason, later.exit_code) == ("Error", 139)
