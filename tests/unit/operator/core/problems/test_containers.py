"""Problems that keep containers from starting or terminate them repeatedly, with the exact messages."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.observed import ObservedReport
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.terminations import terminations_by_pod
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_runtime.contract.report import (
    Phase,
    PhaseProgressReport,
)
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import RUNNING, gate_condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import problem_of, state_of

ROOM = RoomCriterion(to_come=False)
IMAGE = "Check the image's name and registry, its pull policy and spec.pod.imagePullSecrets."
READ_LOG = "Read its log with `kubectl logs {}`."


def waiting(reason: str, message: str = "", **fields: Any) -> PodView:
    return view(pod(state={"waiting": {"reason": reason, "message": message}}, **fields))


def test_unavailable_image_is_a_problem() -> None:
    assert problem_of(waiting("ImagePullBackOff", 'Back-off pulling image "runtime:9"'), state_of(), ROOM) == Problem(
        "ImagePullBackOff",
        f'Pod a cannot start its container: Back-off pulling image "runtime:9". {IMAGE}',
        f'Pod a could not start its container: Back-off pulling image "runtime:9". {IMAGE}',
    )


@pytest.mark.parametrize("said", ["Does it exist?", "No such image!", "No such image."])
def test_kubelet_message_with_punctuation_gets_no_period(said: str) -> None:
    found = problem_of(waiting("ErrImagePull", said), state_of(), ROOM)
    assert found is not None
    assert found.message == f"Pod a cannot start its container: {said} {IMAGE}"


def test_long_message_of_a_kubelet_is_truncated() -> None:
    found = problem_of(waiting("ErrImagePull", "x" * 601), state_of(), ROOM)
    assert found is not None
    assert found.message == f"Pod a cannot start its container: {'x' * 600}. {IMAGE}"


@pytest.mark.parametrize(
    "reason",
    [
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    ],
)
def test_container_that_cannot_be_created_is_a_problem(reason: str) -> None:
    found = problem_of(waiting(reason), state_of(), ROOM)
    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_container_being_created_is_not_a_problem(reason: str) -> None:
    assert problem_of(waiting(reason), state_of(), ROOM) is None


def ended(reason: str, code: int, words: str, **fields: Any) -> PodView:
    last = {"terminated": {"reason": reason, "exitCode": code, "message": words}}
    return waiting("CrashLoopBackOff", last_state=last, **fields)


def after_end(pod: PodView, reports: Mapping[str, ObservedReport] = MappingProxyType({})) -> Problem | None:
    """Return the problem of a pod whose container has ended, with `reports` by UID."""
    return problem_of(pod, state_of(terminations=terminations_by_pod([pod], GaudiInferenceStatus(), reports)), ROOM)


def loop(reason: str, message: str) -> Problem:
    return Problem(
        reason,
        f"The container of pod a terminates repeatedly. {message} {READ_LOG.format('a --previous')}",
        f"The container of pod a terminated repeatedly. {message}",
    )


def test_repeatedly_ending_container_is_a_problem() -> None:
    assert after_end(ended("Error", 1, "loading\nNo such file\n")) == loop(
        "CrashLoopBackOff", "Error, exit code 1: No such file."
    )


def test_container_with_an_unknown_termination_is_a_problem() -> None:
    assert after_end(waiting("CrashLoopBackOff")) == loop(
        "CrashLoopBackOff", "The cause of its termination is unknown."
    )


def test_container_out_of_memory_is_a_problem() -> None:
    assert after_end(ended("OOMKilled", 137, "Killed")) == loop(
        "HostOutOfMemory",
        "OOMKilled, exit code 137: the kernel killed the container because memory ran out; last log line: Killed. "
        "Raise the memory limit of the container. This is memory of the node, not of the card.",
    )


def crash(phase: Phase, at: tuple[int, int, int] | None = None) -> Problem | None:
    """Return the problem of a container that crashes repeatedly in the phase of its last report."""
    pod = ended("Error", 139, "")
    return after_end(
        pod, {pod.uid: ObservedReport("c1", NOW, report(phase, prompt=PhaseProgressReport(planned=8, current=at)))}
    )


@pytest.mark.parametrize("phase", [Phase.SAMPLER, Phase.DEFRAGMENTER])
def test_crash_in_a_phase_without_buckets_names_no_bucket(phase: Phase) -> None:
    found = crash(phase)
    assert found is not None
    assert found.reason == "CompileCrashed"
    assert (
        f"In phase {phase}: Error, exit code 139. No bucket causes this failure. Try another image."
    ) in found.message


def test_crash_between_two_buckets_refers_to_the_log() -> None:
    found = crash(Phase.CAPTURING)
    assert found is not None
    assert "Remove the last bucket in its log from spec.bucketing" in found.message


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.SERVING])
def test_crash_in_another_phase_names_no_bucket(phase: Phase) -> None:
    found = crash(phase)
    assert found is not None
    assert found.reason == "CrashLoopBackOff"


def test_crash_during_a_compile_names_the_bucket() -> None:
    assert crash(Phase.COMPILING, (1, 128, 0)) == loop(
        "CompileCrashed",
        "In phase Compiling at prompt bucket (1, 128, 0): Error, exit code 139. Remove that bucket from "
        "spec.bucketing, or try another image.",
    )


def restarted(restarts: int, gate: bool | None = None) -> PodView:
    manifest = pod(conditions=() if gate is None else (gate_condition(gate),))
    manifest["status"]["containerStatuses"][0]["restartCount"] = restarts
    return view(manifest, report(Phase.COMPILING))


@pytest.mark.parametrize(("restarts", "gate", "loops"), [(1, None, False), (2, None, True), (5, False, False)])
def test_two_terminations_before_serving_are_a_crash_loop(restarts: int, gate: bool | None, loops: bool) -> None:
    assert (problem_of(restarted(restarts, gate), state_of(), ROOM) is not None) is loops


LOG_OF_THE_SIDE = "Read its log with `kubectl logs a -c {} --previous`."


def with_container(state: Object, *, sidecar: bool = False, last: Object | None = None, restarts: int = 0) -> PodView:
    """Return a pod with an init container in this state. With `sidecar`, the init container is a sidecar."""
    manifest = pod(state={"waiting": {"reason": "PodInitializing"}})
    kind = {"restartPolicy": "Always"} if sidecar else {}
    manifest["spec"] = {"initContainers": [{"name": "side", **kind}]}
    status = {"name": "side", "state": state, "lastState": {"terminated": last} if last else {}}
    manifest["status"]["initContainerStatuses"] = [{**status, "restartCount": restarts}]
    return view(manifest)


def exited(code: int, seconds_ago: int, message: str = "") -> Object:
    ended = stamp(NOW - timedelta(seconds=seconds_ago))
    return {"reason": "Error" if code else "Completed", "exitCode": code, "message": message, "finishedAt": ended}


@pytest.mark.parametrize(("sidecar", "called"), [(False, "init container side"), (True, "sidecar side")])
def test_unavailable_image_of_a_side_container_is_a_problem(sidecar: bool, called: str) -> None:
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    assert problem_of(with_container(waits, sidecar=sidecar), state_of(), ROOM) == Problem(
        "ImagePullBackOff",
        f"Pod a cannot start its {called}: no such image. {IMAGE}",
        f"Pod a could not start its {called}: no such image. {IMAGE}",
    )


def test_side_container_that_cannot_be_created_is_a_problem() -> None:
    waits = {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}
    found = problem_of(with_container(waits), state_of(), ROOM)
    assert found is not None
    assert found.reason == "CreateContainerConfigError"
    assert "Check that the objects named in env and volumeMounts of the container exist" in found.message


@pytest.mark.parametrize(
    ("sidecar", "reason", "called"),
    [(False, "InitContainerFails", "init container side"), (True, "SidecarFails", "sidecar side")],
)
def test_repeatedly_ending_side_container_is_a_problem(sidecar: bool, reason: str, called: str) -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    failing = with_container(waits, sidecar=sidecar, last=exited(1, 5, "no {place}"), restarts=1)
    ending = "repeatedly. Error, exit code 1: no {place}."
    assert problem_of(failing, state_of(), ROOM) == Problem(
        reason,
        f"The {called} of pod a terminates {ending} {LOG_OF_THE_SIDE.format('side')}",
        f"The {called} of pod a terminated {ending}",
    )


@pytest.mark.parametrize(
    ("restarts", "seconds_ago", "fails"), [(1, 5, False), (2, 5, True), (2, 599, True), (2, 601, False)]
)
def test_two_recent_terminations_are_reported_while_the_container_runs(
    restarts: int, seconds_ago: int, fails: bool
) -> None:
    runs = with_container(RUNNING, sidecar=True, last=exited(1, seconds_ago), restarts=restarts)
    found = problem_of(runs, state_of(), ROOM)
    assert (found is not None and found.reason == "SidecarFails") is fails


def test_init_container_that_finally_succeeded_is_not_a_problem() -> None:
    assert problem_of(with_container({"terminated": exited(0, 1)}, restarts=5), state_of(), ROOM) is None


def test_termination_of_a_sidecar_is_not_recorded_as_the_runtimes() -> None:
    failing = with_container({"terminated": exited(1, 1)}, restarts=5)
    assert failing.container is not None
    assert failing.container.last_exit is None
    assert terminations_by_pod([failing], GaudiInferenceStatus(), {}) == {}
