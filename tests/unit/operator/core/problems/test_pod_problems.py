"""Problems of pods and workloads, with the exact messages."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, Revisions
from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.gate.recompiles import ADD_SIZES
from gaudi_operator.core.gate.thresholds import explain_shortfall
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.criteria import Room
from gaudi_operator.core.problems.pod_problems import is_caused_by_revision
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import (
    BucketPhase,
    ColdShape,
    Phase,
    PhaseProgress,
    Requests,
    RuntimeFailure,
    Served,
    ServedVision,
    Skipped,
)
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gated, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, inference
from tests.unit.operator.core.states import first_problem_of, problem_of, state_of

ROOM = Room(to_come=False)
READ_LOG = "Read its log with `kubectl logs a`."
NO_NODE = "Pod a is unschedulable: 0/1 nodes are available."
NO_PODS = "ReplicaSet tiny-1 cannot create pods: "


def unschedulable(seconds: int, said: str = "0/1 nodes are available") -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    scheduled = condition("PodScheduled", False, "Unschedulable", said, since)
    return view(pod(container=None, phase="Pending", conditions=(scheduled,)))


def replica_set(**condition: str) -> Object:
    """Return a ReplicaSet that may not create pods, unless its condition is replaced."""
    failed = {"type": "ReplicaFailure", "status": "True", **condition}
    return {"metadata": {"name": "tiny-1"}, "status": {"conditions": [failed]}}


def test_healthy_pod_has_no_problem() -> None:
    assert problem_of(view(report=report()), state_of(), ROOM) is None


def test_pod_unscheduled_for_long_is_a_problem() -> None:
    assert problem_of(unschedulable(31), state_of(), ROOM) == Problem(
        "Unschedulable",
        f"{NO_NODE} Free or add cards and memory, or lower spec.replicas.",
        since=NOW - timedelta(seconds=31),
    )


def test_scheduler_without_a_message_found_no_node() -> None:
    found = problem_of(unschedulable(31, ""), state_of(), ROOM)
    assert found is not None
    assert found.message.startswith("Pod a is unschedulable: no node fits. ")


def test_unscheduled_pod_of_an_upgrade_is_a_problem() -> None:
    assert problem_of(unschedulable(31), state_of(), Room(to_come=False, unblock="Free cards.")) == Problem(
        "UpgradeBlocked", f"{NO_NODE} Free cards.", since=NOW - timedelta(seconds=31)
    )


def held(seconds: int) -> PodView:
    return view(gated("kueue.x-k8s.io/admission", since=stamp(NOW - timedelta(seconds=seconds))))


HELD = "Pod a is held by the scheduling gate kueue.x-k8s.io/admission and has no node yet."


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (
            ROOM,
            Problem(
                "SchedulingGated",
                f"{HELD} The pod starts after the quota system that set the gate, such as Kueue, admits it; "
                "`kubectl describe pod a` shows its events.",
                since=NOW,
            ),
        ),
        (
            Room(to_come=False, in_place_after=300),
            Problem(
                "SchedulingGated",
                f"{HELD} If the gate stays for 300 s (spec.rollout.surgeTimeoutSeconds), pods are replaced in place. "
                "To wait for room instead, set spec.rollout.whenNoRoom to Wait.",
                since=NOW,
            ),
        ),
        (
            Room(to_come=False, unblock="Free cards."),
            Problem("UpgradeBlocked", f"{HELD} Free cards.", since=NOW - timedelta(seconds=31)),
        ),
        (Room(to_come=True), None),
    ],
    ids=["first start", "upgrade", "blocked upgrade", "room to come"],
)
def test_pod_with_a_scheduling_gate_is_queued(room: Room, expected: Problem | None) -> None:
    assert problem_of(held(31), state_of(), room) == expected


def test_unscheduled_pod_ranks_above_a_queued_one() -> None:
    found = first_problem_of([held(700), unschedulable(31)], [], state_of(), ROOM)
    assert found
    assert found.reason == "Unschedulable"


def test_short_scheduling_gate_is_not_a_problem() -> None:
    assert problem_of(held(29), state_of(), ROOM) is None


def test_briefly_unscheduled_pod_has_no_problem() -> None:
    assert problem_of(unschedulable(29), state_of(), ROOM) is None


def test_pod_waiting_for_a_terminating_pods_room_has_no_problem() -> None:
    assert problem_of(unschedulable(300), state_of(), Room(to_come=True)) is None


def test_failed_runtime_has_its_own_message() -> None:
    failure = RuntimeFailure(reason="ModelNotFound", message="There is no folder /models/tiny.")
    assert problem_of(view(report=report(Phase.FAILED, failure=failure)), state_of(), ROOM) == Problem(
        "ModelNotFound",
        "Pod a cannot start: There is no folder /models/tiny.",
        "Pod a could not start: There is no folder /models/tiny.",
    )


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("0/3 nodes are available: 3 Insufficient habana.ai/gaudi.", "Free or add cards and memory, or lower"),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            "Change spec.pod.nodeSelector",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.",
            "Tolerate the taint in spec.pod.tolerations",
        ),
    ],
)
def test_advice_follows_the_reason_of_the_scheduler(said: str, advice: str) -> None:
    found = problem_of(unschedulable(31, said), state_of(), ROOM)
    assert found is not None
    assert found.message.removeprefix(f"Pod a is unschedulable: {said} ").startswith(advice)


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
    at = PhaseProgress(planned=8, warmed=3, current=(4, 1, 64))
    found = problem_of(view(report=report(Phase.COMPILING, since_progress_seconds=1801, decode=at)), state_of(), ROOM)
    assert found is not None
    assert "in phase Compiling at decode bucket (4, 1, 64)." in found.message


@pytest.mark.parametrize(
    ("inputs", "reason"), [({"warmup": {"stallTimeoutSeconds": 3600}}, None), ({}, "WarmupStalled")]
)
def test_stall_timeout_is_that_of_the_pods_revision(inputs: Object, reason: str | None) -> None:
    still = view(pod(revision="old"), report(Phase.COMPILING, since_progress_seconds=1801))
    found = problem_of(still, state_of(stored=(Revision("old", 1, inputs, {}, ""),)), ROOM)
    assert (found and found.reason) == reason


def test_slow_warm_up_with_progress_has_no_problem() -> None:
    assert problem_of(view(report=report(Phase.COMPILING, since_progress_seconds=1800)), state_of(), ROOM) is None


def test_idle_server_has_no_problem() -> None:
    assert problem_of(view(report=report(since_progress_seconds=99_999)), state_of(), ROOM) is None


def test_warm_up_ending_below_a_threshold_is_a_problem() -> None:
    short = report(prompt=PhaseProgress(planned=24, warmed=24, captured=15))
    below = explain_shortfall(short, Readiness())
    assert below is not None
    reason, found = below
    ignored = (
        f"{found} Raise spec.warmup.graphMemoryPercent, plan fewer buckets, lower the percentages in spec.readiness, "
        "or set its onShortfall to ServeAndWarn."
    )
    assert problem_of(view(report=short), state_of(), ROOM) == Problem(
        reason, f"Pod a takes no traffic: {ignored}", f"Pod a took no traffic: {ignored}"
    )


def test_graph_without_room_on_the_card_is_named() -> None:
    out = Skipped(phase=BucketPhase.PROMPT, bucket=(1, 512, 0), reason="no memory was left")
    found = problem_of(
        view(report=report(prompt=PhaseProgress(planned=2, captured=1), skipped=(out,))), state_of(), ROOM
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
    assert first_problem_of([], [refused], state_of(), Room(to_come=True)) is None


def test_quota_refusal_of_an_upgrade_is_a_problem() -> None:
    refused = replica_set(message="exceeded quota: cards")
    assert first_problem_of([], [refused], state_of(), Room(to_come=False, unblock="Free cards.")) == Problem(
        "UpgradeBlocked", f"{NO_PODS}exceeded quota: cards. Free cards."
    )


def observing(**limits: int | None) -> State:
    """Return the state of a revision observed with `limits`, or not observed if None."""
    canary = {"observeSeconds": 0} if None in limits.values() else {"observeSeconds": 1, **limits}
    return state_of(inference=inference(rollout={"canary": canary}))


def test_proven_revision_has_no_observation_limits() -> None:
    met = view(report=report(recompiles_since_ready=11))
    proven = replace(observing(maxRecompiles=10), before=GaudiInferenceStatus(revision=Revisions(stable=met.revision)))
    assert problem_of(met, proven, ROOM) is None


@pytest.mark.parametrize(
    ("recompiles", "most", "skipped", "too_many"),
    [(11, 10, False, True), (10, 10, False, False), (11, None, False, False), (11, 10, True, False)],
)
def test_recompiles_of_an_observed_revision_are_a_problem(
    recompiles: int, most: int | None, skipped: bool, too_many: bool
) -> None:
    met = view(report=report(recompiles_since_ready=recompiles, warmup_skipped=skipped))
    found = problem_of(met, observing(maxRecompiles=most), ROOM)
    assert (found is not None and found.reason == "TooManyRecompiles") is too_many


def test_recompiles_name_the_shape_that_was_met_most_often() -> None:
    rare = ColdShape(phase=BucketPhase.DECODE, shape=(9, 1, 9), count=1)
    often = ColdShape(phase=BucketPhase.PROMPT, shape=(1, 128, 0), count=10)
    met = view(report=report(recompiles_since_ready=11, cold_shapes=(rare, often)))
    assert problem_of(met, observing(maxRecompiles=10), ROOM) == Problem(
        "TooManyRecompiles",
        "Requests waited for 11 compiles in pod a, most often prompt (1, 128, 0); spec.rollout.canary.maxRecompiles is "
        "10. Add buckets for these shapes to spec.bucketing.",
    )


def test_recompiles_without_known_shapes_are_reported_as_numbers() -> None:
    found = problem_of(view(report=report(recompiles_since_ready=11)), observing(maxRecompiles=10), ROOM)
    assert found is not None
    assert found.reason == "TooManyRecompiles"
    assert "11 compiles in pod a; spec.rollout.canary.maxRecompiles is 10." in found.message


def test_recompiles_only_of_images_suggest_their_sizes() -> None:
    seen = report(recompiles_since_ready=11, served=Served(vision=ServedVision(misses=11, recompiles=11)))
    found = problem_of(view(report=seen), observing(maxRecompiles=10), ROOM)
    assert found is not None
    assert found.message.endswith(ADD_SIZES)


def test_failing_requests_are_reported_with_limit_and_log() -> None:
    met = view(report=report(requests=Requests(answered=100, failed=6)))
    found = "6 of 100 answers of pod a failed; spec.rollout.canary.maxErrorPercent is 5."
    assert problem_of(met, observing(maxErrorPercent=5), ROOM) == Problem("TooManyErrors", f"{found} {READ_LOG}", found)


@pytest.mark.parametrize(
    ("condition", "shown"),
    [({"reason": "FailedCreate"}, "FailedCreate"), ({}, "no reason was given")],
)
def test_refusal_without_a_message_has_its_reason(condition: dict[str, str], shown: str) -> None:
    found = first_problem_of([], [replica_set(**condition)], state_of(), ROOM)
    assert found is not None
    assert found.message.startswith(f"{NO_PODS}{shown}. ")


@pytest.mark.parametrize(
    ("failed", "answered", "most", "too_many"),
    [(6, 100, 5, True), (5, 100, 5, False), (4, 4, 5, False), (5, 5, 5, True), (5, 900, 0, True), (9, 9, None, False)],
)
def test_failing_requests_of_an_observed_revision_are_a_problem(
    failed: int, answered: int, most: int | None, too_many: bool
) -> None:
    met = view(report=report(requests=Requests(answered=answered, failed=failed)))
    found = problem_of(met, observing(maxErrorPercent=most), ROOM)
    assert (found is not None and found.reason == "TooManyErrors") is too_many


@pytest.mark.parametrize(
    ("reason", "blamed"),
    [
        ("WarmupStalled", True),
        ("CompileCrashed", True),
        ("HostOutOfMemory", True),
        ("InvalidImageName", True),
        ("StartFailed", True),
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
def test_revision_is_blamed_only_for_its_own_problems(reason: str, blamed: bool) -> None:
    assert is_caused_by_revision(Problem(reason, "")) is blamed


def test_problem_of_a_pod_ranks_above_its_replica_sets() -> None:
    found = first_problem_of(
        [view(), view(pod(state={"waiting": {"reason": "InvalidImageName"}}))], [], state_of(), ROOM
    )
    assert found is not None
    assert found.reason == "InvalidImageName"
