"""What needs a person, with the exact sentences."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.pods import PodView
from gaudi_operator.core.troubles import Circumstances, Trouble, first_trouble, pod_trouble
from gaudi_runtime.contract.report import Phase, PhaseProgress, RuntimeFailure
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW

CIRCUMSTANCES = Circumstances(Readiness(), room_to_come=False, now=NOW)
IMAGE = "Check spec.engine.image, spec.engine.imagePullPolicy and spec.pod.imagePullSecrets."


def waiting(reason: str, message: str = "", **fields: Any) -> PodView:
    return view(pod(state={"waiting": {"reason": reason, "message": message}}, **fields))


def unschedulable(seconds: int) -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    scheduled = condition("PodScheduled", False, "Unschedulable", "0/1 nodes are available", since)
    return view(pod(container=None, phase="Pending", conditions=(scheduled,)))


def test_healthy_pod_is_in_no_trouble() -> None:
    assert pod_trouble(view(report=report()), CIRCUMSTANCES) is None


def test_image_that_cannot_be_pulled() -> None:
    assert pod_trouble(waiting("ImagePullBackOff", 'Back-off pulling image "runtime:9"'), CIRCUMSTANCES) == Trouble(
        "ImagePullBackOff", f'Pod a cannot start its container: Back-off pulling image "runtime:9". {IMAGE}'
    )


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
def test_container_that_cannot_be_made(reason: str) -> None:
    found = pod_trouble(waiting(reason), CIRCUMSTANCES)
    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_container_that_is_being_made_is_in_no_trouble(reason: str) -> None:
    assert pod_trouble(waiting(reason), CIRCUMSTANCES) is None


def test_container_that_ends_again_and_again() -> None:
    last = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "message": "loading\nKilled\n"}}
    assert pod_trouble(waiting("CrashLoopBackOff", last_state=last), CIRCUMSTANCES) == Trouble(
        "CrashLoopBackOff",
        "The container of pod a ends again and again (OOMKilled, exit code 137: Killed). Read its log with "
        "`kubectl logs a --previous`; OOMKilled asks for more spec.pod.resources.memory.",
    )


def test_pod_without_a_node_for_long() -> None:
    assert pod_trouble(unschedulable(31), CIRCUMSTANCES) == Trouble(
        "Unschedulable",
        "Pod a finds no node: 0/1 nodes are available. Free or add cards and memory, lower spec.replicas, or set "
        "spec.rollout.mode to inPlace so that new pods take the place of old ones.",
    )


def test_pod_without_a_node_for_a_moment_is_in_no_trouble() -> None:
    assert pod_trouble(unschedulable(29), CIRCUMSTANCES) is None


def test_pod_that_waits_for_the_room_of_an_ending_one_is_in_no_trouble() -> None:
    assert pod_trouble(unschedulable(300), Circumstances(Readiness(), room_to_come=True, now=NOW)) is None


def test_runtime_that_failed_says_so_itself() -> None:
    failure = RuntimeFailure(reason="ModelNotFound", message="There is no folder /models/tiny.")
    assert pod_trouble(view(report=report(Phase.FAILED, failure=failure)), CIRCUMSTANCES) == Trouble(
        "ModelNotFound", "Pod a cannot start: There is no folder /models/tiny."
    )


def test_warmup_that_stands_still() -> None:
    still = view(report=report(Phase.COMPILING, since_progress_seconds=1801))
    assert pod_trouble(still, CIRCUMSTANCES) == Trouble(
        "WarmupStalled",
        "Nothing has moved in pod a for more than 1800 s, in phase Compiling. Its container is "
        "restarted; if that repeats, read its log, or raise spec.readiness.stallTimeoutSeconds if a step takes longer.",
    )


def test_warmup_that_moves_now_and_then_is_in_no_trouble() -> None:
    assert pod_trouble(view(report=report(Phase.COMPILING, since_progress_seconds=1799)), CIRCUMSTANCES) is None


def test_idle_server_is_in_no_trouble() -> None:
    assert pod_trouble(view(report=report(since_progress_seconds=99_999)), CIRCUMSTANCES) is None


def test_warmup_that_ended_below_a_threshold() -> None:
    short = view(report=report(prompt=PhaseProgress(planned=24, warmed=24, captured=15)))
    assert pod_trouble(short, CIRCUMSTANCES) == Trouble(
        "CapturedBelowThreshold",
        "Pod a takes no traffic: Warm-up ended below the thresholds: 15 of 24 prompt graphs (62 %) are captured, "
        "100 % are asked for. Give graphs more memory (spec.warmup.graphMemoryShare), plan fewer buckets, lower the "
        "percentages in spec.readiness, or set its onShortfall to serveAndWarn.",
    )


def test_replica_set_that_may_make_no_pods() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: cards"}
    replica_set = {"metadata": {"name": "tiny-1"}, "status": {"conditions": [failed]}}
    assert first_trouble([], [replica_set], CIRCUMSTANCES) == Trouble(
        "PodsRefused",
        "ReplicaSet tiny-1 cannot make pods: exceeded quota: cards. Check the quota and the admission rules of this "
        "namespace.",
    )


def test_trouble_of_a_pod_comes_before_that_of_its_replica_set() -> None:
    found = first_trouble([view(), waiting("InvalidImageName")], [], CIRCUMSTANCES)
    assert found is not None
    assert found.reason == "InvalidImageName"
