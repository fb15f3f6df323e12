"""Problems of pods that start or warm up, and of ReplicaSets that cannot create pods, with the exact messages."""

from datetime import timedelta

import pytest

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.gate.thresholds import explain_threshold_shortfall
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.pod_problems import is_pod_problem_of_revision
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.report import (
    BucketPhase,
    Phase,
    PhaseProgressReport,
    RuntimeFailureReport,
    SkippedBucketReport,
)
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, inference
from tests.unit.operator.core.states import first_problem_of, problem_of, state_of

ROOM = RoomCriterion(to_come=False)
READ_LOG = "Read its log with `kubectl logs a`."
NO_PODS = "ReplicaSet tiny-1 cannot create pods: "


def replica_set(**condition: str) -> Object:
    """Return a ReplicaSet that cannot create pods, unless `condition` says otherwise."""
    failed = {"type": "ReplicaFailure", "status": "True", **condition}
    return {"metadata": {"name": "tiny-1"}, "status": {"conditions": [failed]}}


def test_healthy_pod_has_no_problem() -> None:
    assert problem_of(view(report=report()), state_of(), ROOM) is None


def test_problem_of_a_failed_runtime_has_its_reason_and_message() -> None:
    failure = RuntimeFailureReport(reason="ModelNotFound", message="Folder /models/tiny does not exist.")
    assert problem_of(view(report=report(Phase.FAILED, failure=failure)), state_of(), ROOM) == Problem(
        "ModelNotFound",
        "Pod a cannot start: Folder /models/tiny does not exist.",
        "Pod a could not start: Folder /models/tiny does not exist.",
    )


def ended(message: str, *conditions: Object, minutes_ago: int = 5, restarts: int = 3) -> Object:
    """Return a pod that got its node 60 minutes ago. Its previous container has ended with `message`."""
    exited = {"reason": "Error", "exitCode": 1, "message": message, "finishedAt": minutes_before_now(minutes_ago)}
    scheduled = condition("PodScheduled", True, since=minutes_before_now(60))
    manifest = pod(conditions=(scheduled, *conditions), last_state={"terminated": exited})
    manifest["status"]["containerStatuses"][0]["restartCount"] = restarts
    return manifest


def minutes_before_now(minutes: int) -> str:
    return stamp(NOW - timedelta(minutes=minutes))


HUB = "HubUnreachable: The hub answers with HTTP 503."


@pytest.mark.parametrize("phase", [None, Phase.STARTING, Phase.FETCHING, Phase.LOADING])
def test_external_failure_of_last_container_stays_until_loaded(phase: Phase | None) -> None:
    found = problem_of(view(ended(HUB), phase and report(phase)), state_of(), ROOM)
    message = "Pod a could not start: The hub answers with HTTP 503. Its container restarts and tries again."
    assert found == Problem("HubUnreachable", message, since=NOW - timedelta(minutes=60))


def test_external_failure_of_last_container_is_past_during_warm_up() -> None:
    assert problem_of(view(ended(HUB), report(Phase.COMPILING)), state_of(), ROOM) is None


def test_external_failure_before_the_pod_served_is_past() -> None:
    closed = gate_condition(False, since=minutes_before_now(1))
    assert problem_of(view(ended(HUB, closed)), state_of(), ROOM) is None


def test_repeated_external_failure_keeps_the_start_of_the_problem() -> None:
    failed = report(Phase.FAILED, failure=RuntimeFailureReport(reason="HubUnreachable", message="The hub answers 503."))
    found = problem_of(view(ended(HUB), failed), state_of(), ROOM)
    assert found is not None
    assert found.since == NOW - timedelta(minutes=60)


@pytest.mark.parametrize(
    ("message", "restarts", "reason"),
    [
        ("Crashed: KeyError: 'a'", 1, None),
        ("Crashed: KeyError: 'a'", 2, "CrashLoopBackOff"),
        ("EngineLost: A process of vLLM died.", 2, "CrashLoopBackOff"),
        ("DiskFull: The disk is full.", 9, "DiskFull"),
    ],
)
def test_only_a_cause_in_the_revision_is_a_crash_loop(message: str, restarts: int, reason: str | None) -> None:
    found = problem_of(view(ended(message, restarts=restarts)), state_of(), ROOM)
    assert (found and found.reason) == reason


@pytest.mark.parametrize(("restarts", "reason"), [(1, "Crashed"), (2, "CrashLoopBackOff")])
def test_third_reported_crash_is_a_crash_loop(restarts: int, reason: str) -> None:
    failed = report(Phase.FAILED, failure=RuntimeFailureReport(reason="Crashed", message="KeyError: 'a'"))
    found = problem_of(view(ended("Crashed: KeyError: 'a'", restarts=restarts), failed), state_of(), ROOM)
    assert found is not None
    assert found.reason == reason


def test_stalled_warm_up_is_a_problem() -> None:
    still = view(report=report(Phase.COMPILING, since_progress_seconds=1801))
    where = "in pod a for more than 1800 s, in phase Compiling."
    field = "spec.warmup.stallTimeoutSeconds if a step takes longer."
    assert problem_of(still, state_of(), ROOM) == Problem(
        "WarmupStalled",
        f"No progress {where} The container is restarted. If this repeats, read its log. Raise {field}",
        f"No progress {where} Raise {field}",
    )


def test_stalled_warm_up_names_the_bucket() -> None:
    at = PhaseProgressReport(planned=8, warmed=3, current=(4, 1, 64))
    found = problem_of(view(report=report(Phase.COMPILING, since_progress_seconds=1801, decode=at)), state_of(), ROOM)
    assert found is not None
    assert "in phase Compiling at decode bucket (4, 1, 64)." in found.message


@pytest.mark.parametrize(
    ("inputs", "reason"), [({"warmup": {"stallTimeoutSeconds": 3600}}, None), ({}, "WarmupStalled")]
)
def test_stall_timeout_comes_from_the_revision_of_the_pod(inputs: Object, reason: str | None) -> None:
    still = view(pod(revision="old"), report(Phase.COMPILING, since_progress_seconds=1801))
    found = problem_of(still, state_of(stored=(Revision("old", 1, inputs, {}, ""),)), ROOM)
    assert (found and found.reason) == reason


def test_slow_warm_up_with_progress_has_no_problem() -> None:
    assert problem_of(view(report=report(Phase.COMPILING, since_progress_seconds=1800)), state_of(), ROOM) is None


def test_idle_server_has_no_problem() -> None:
    assert problem_of(view(report=report(since_progress_seconds=99_999)), state_of(), ROOM) is None


def test_warm_up_ending_below_a_threshold_is_a_problem() -> None:
    short = report(prompt=PhaseProgressReport(planned=24, warmed=24, captured=15, left_out_for_memory=9))
    below = explain_threshold_shortfall(short, Readiness(min_captured_prompt_percent=80))
    assert below is not None
    reason, found = below
    ignored = (
        f"{found} Raise spec.warmup.graphMemoryPercent, plan fewer buckets, lower the percentages in spec.readiness, "
        "or set spec.readiness.onShortfall to ServeAndWarn."
    )
    strict = state_of(inference=inference(readiness={"minCapturedPromptPercent": 80}))
    assert problem_of(view(report=short), strict, ROOM) == Problem(
        reason, f"Pod a receives no traffic: {ignored}", f"Pod a received no traffic: {ignored}"
    )


def test_graph_skipped_for_lack_of_memory_is_named() -> None:
    out = SkippedBucketReport(phase=BucketPhase.PROMPT, bucket=(1, 512, 0), reason="no memory was left")
    found = problem_of(
        view(report=report(prompt=PhaseProgressReport(planned=2, captured=1), skipped=(out,))), state_of(), ROOM
    )
    assert found is not None
    assert "(1, 512, 0)" in found.message


def test_replica_set_without_permission_for_pods_is_a_problem() -> None:
    refused = replica_set(reason="FailedCreate", message="exceeded quota: cards")
    assert first_problem_of([], [refused], state_of(), ROOM) == Problem(
        "PodsRefused",
        f"{NO_PODS}exceeded quota: cards. Check the quota and the admission rules of this namespace.",
    )


@pytest.mark.parametrize(("kind", "status"), [("ReplicaFailure", "False"), ("Progressing", "True")])
def test_replica_set_creating_its_pods_has_no_problem(kind: str, status: str) -> None:
    assert first_problem_of([], [replica_set(type=kind, status=status)], state_of(), ROOM) is None


def test_quota_used_by_terminating_pods_is_not_a_problem() -> None:
    refused = replica_set(message="exceeded quota: cards")
    assert first_problem_of([], [refused], state_of(), RoomCriterion(to_come=True)) is None


def test_quota_refusal_of_an_upgrade_is_a_problem() -> None:
    refused = replica_set(message="exceeded quota: cards")
    assert first_problem_of([], [refused], state_of(), RoomCriterion(to_come=False, remedy="Free cards.")) == Problem(
        "UpgradeBlocked", f"{NO_PODS}exceeded quota: cards. Free cards."
    )


@pytest.mark.parametrize(
    ("condition", "shown"),
    [({"reason": "FailedCreate"}, "FailedCreate"), ({}, "no reason was given")],
)
def test_refusal_without_a_message_shows_its_reason(condition: dict[str, str], shown: str) -> None:
    found = first_problem_of([], [replica_set(**condition)], state_of(), ROOM)
    assert found is not None
    assert found.message.startswith(f"{NO_PODS}{shown}. ")


@pytest.mark.parametrize(
    ("reason", "blamed"),
    [
        ("WarmupStalled", True),
        ("CompileCrashed", True),
        ("HostOutOfMemory", True),
        ("InvalidImageName", True),
        ("StartFailed", True),
        ("CrashLoopBackOff", True),
        ("Crashed", False),
        ("InitContainerFails", True),
        ("SidecarFails", True),
        ("ImagePullBackOff", False),
        ("Unschedulable", False),
        ("VolumeNotBound", False),
        ("PodNotPrepared", False),
        ("HubUnreachable", False),
        ("DeviceUnavailable", False),
        ("EngineLost", False),
    ],
)
def test_only_some_reasons_are_caused_by_the_revision(reason: str, blamed: bool) -> None:
    assert is_pod_problem_of_revision(Problem(reason, "")) is blamed


def test_problem_of_a_pod_ranks_above_its_replica_sets() -> None:
    found = first_problem_of(
        [view(), view(pod(state={"waiting": {"reason": "InvalidImageName"}}))], [], state_of(), ROOM
    )
    assert found is not None
    assert found.reason == "InvalidImageName"
