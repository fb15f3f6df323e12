"""The condition Stalled: after a deadline for problems that others may fix, immediately for permanent ones."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from gaudi_operator.core.names import FAILURE_ANNOTATION
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.pod_problems import is_pod_problem_of_revision
from gaudi_operator.core.problems.resolution import QUEUED, RESOLVED_BY_OTHERS, worst_unresolved_problem
from gaudi_runtime.contract.failures import PASSING_REASONS
from gaudi_runtime.contract.report import Phase, RuntimeFailureReport
from gaudi_runtime.errors import Problem
from tests.support.conformance import kstatus, violations
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.group_cluster import GroupCluster
from tests.unit.operator.core.pod_objects import condition as pod_condition
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, resource
from tests.unit.operator.core.states import first_problem_of, problem_of, state_of
from tests.unit.operator.core.stories import condition, served, status

PAGE = (Path(__file__).parents[5] / "docs" / "how-to" / "troubleshoot.md").read_text()
SECTION = PAGE.partition("## Stalled: ")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in SECTION.splitlines() if line.startswith("| `")]
CLASSES = {reason: cells[2] for cells in ROWS if len(cells) == 4 for reason in re.findall(r"`(\w+)`", cells[0])}
DEADLINE = 600


def stalled(cluster: Cluster) -> tuple[str, str]:
    """Return the status and the reason of `Stalled`, and check that GitOps tools understand the resource's status."""
    assert violations(cluster.resource) == []
    return condition(cluster, "Stalled")


def kstatus_after(cluster: Cluster, seconds: float) -> str:
    """Reconcile `seconds` after NOW and return the kstatus result."""
    cluster.now = NOW + timedelta(seconds=seconds - 1)
    cluster.operate()
    assert violations(cluster.resource) == []
    return kstatus(cluster.resource)


def set_waiting_reason(cluster: Cluster, reason: str) -> None:
    """Let the kubelet report why the container of the only pod does not start.

    The pod was created and scheduled at NOW.
    """
    (made,) = cluster.kind("Pod")
    made["metadata"]["creationTimestamp"] = stamp(NOW)
    made["status"]["conditions"] = [pod_condition("PodScheduled", True, since=stamp(NOW))]
    (container,) = made["status"]["containerStatuses"]
    container |= {"state": {"waiting": {"reason": reason, "message": "not yet"}}, "ready": False}


def starting(reason: str = "ErrImagePull", **spec: object) -> Cluster:
    """Return a resource whose first pod does not start."""
    cluster = Cluster(resource(replicas=1, **spec))
    cluster.operate()
    cluster.controllers()
    set_waiting_reason(cluster, reason)
    return cluster


@pytest.mark.parametrize("reason", sorted(CLASSES))
def test_page_has_the_deadline_of_each_reason(reason: str) -> None:
    lasting = "never" if reason in QUEUED else "after the deadline"
    assert CLASSES[reason] == (lasting if reason in RESOLVED_BY_OTHERS else "immediately")


def test_page_lists_every_temporary_reason() -> None:
    assert set(CLASSES) >= RESOLVED_BY_OTHERS


@pytest.mark.parametrize("reason", sorted(RESOLVED_BY_OTHERS))
def test_temporary_problem_causes_no_rollback(reason: str) -> None:
    assert not is_pod_problem_of_revision(Problem(reason, ""))


@pytest.mark.parametrize("reason", sorted({"ErrImagePull", "CreateContainerConfigError", "RunContainerError"}))
def test_gitops_waits_until_the_deadline_and_then_fails(reason: str) -> None:
    cluster = starting(reason)
    assert kstatus_after(cluster, DEADLINE - 1) == "InProgress"
    assert (condition(cluster, "Ready"), condition(cluster, "Reconciling")) == (("False", reason), ("True", reason))
    assert kstatus_after(cluster, DEADLINE) == "Failed"
    assert (stalled(cluster), condition(cluster, "Ready")) == (("True", reason), ("False", reason))


def test_invalid_image_name_fails_immediately() -> None:
    # After its first write, the operator delays status writes by 2 seconds. So the failure is in the status after 2
    # seconds.
    assert kstatus_after(starting("InvalidImageName"), 2) == "Failed"


def test_deadline_of_the_spec_is_used_and_scheduled() -> None:
    cluster = starting(rollout={"obstacleDeadlineSeconds": 20})
    cluster.now = NOW + timedelta(seconds=11)
    assert cluster.operate().requeue_after == pytest.approx(8.1)
    assert kstatus_after(cluster, 20) == "Failed"


def test_raised_deadline_returns_a_stalled_resource_to_in_progress() -> None:
    cluster = starting()
    assert kstatus_after(cluster, DEADLINE) == "Failed"
    cluster.change(rollout={"obstacleDeadlineSeconds": 900})
    assert kstatus_after(cluster, DEADLINE + 2) == "InProgress"


def test_alternating_failures_share_one_deadline() -> None:
    cluster = starting()
    for seconds in range(10, DEADLINE, 100):
        set_waiting_reason(cluster, "ErrImagePull" if seconds // 100 % 2 else "ImagePullBackOff")
        assert kstatus_after(cluster, seconds) == "InProgress"
    assert kstatus_after(cluster, DEADLINE) == "Failed"
    turned = [each["lastTransitionTime"] for each in status(cluster)["conditions"] if each["type"] == "Stalled"]
    set_waiting_reason(cluster, "ErrImagePull")
    assert kstatus_after(cluster, DEADLINE + 30) == "Failed"
    assert [each["lastTransitionTime"] for each in status(cluster)["conditions"] if each["type"] == "Stalled"] == turned


def test_problem_fixed_in_time_never_stalls() -> None:
    cluster = starting()
    kstatus_after(cluster, DEADLINE - 10)
    (made,) = cluster.kind("Pod")
    (container,) = made["status"]["containerStatuses"]
    container["state"] = {"running": {}}
    cluster.settle()
    assert kstatus(cluster.resource) == "Current"
    assert not [event for event in cluster.events if event.reason == "Stalled"]


def test_deadline_of_an_image_pull_starts_at_the_container_restart() -> None:
    ended = {"terminated": {"exitCode": 1, "finishedAt": stamp(NOW - timedelta(seconds=5))}}
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    long_placed = pod(state=waiting, last_state=ended, conditions=(pod_condition("PodScheduled", True),))
    found = problem_of(view(long_placed), state_of(), RoomCriterion(to_come=False))
    assert found
    assert found.since == NOW - timedelta(seconds=5)


def test_endless_image_pull_keeps_revision_and_serving_pods() -> None:
    cluster = served(replicas=1)
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.controllers()
    (new,) = (each for each in cluster.kind("Pod") if not cluster.reports.get(each["metadata"]["uid"]))
    new["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}
    cluster.now += timedelta(seconds=DEADLINE)
    cluster.operate()
    assert (stalled(cluster), status(cluster)["readyReplicas"]) == (("True", "ImagePullBackOff"), 1)
    kept = [each["metadata"]["annotations"] for each in cluster.kind("ControllerRevision")]
    assert not [each for each in kept if FAILURE_ANNOTATION in each]


def test_node_that_boots_in_time_prevents_a_stall() -> None:
    cluster = Cluster(resource(replicas=1), cards=0)
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    cluster.now += timedelta(seconds=300)
    cluster.operate()
    assert (kstatus(cluster.resource), condition(cluster, "Reconciling")) == ("InProgress", ("True", "Unschedulable"))
    cluster.cards = 1
    cluster.settle()
    assert kstatus(cluster.resource) == "Current"
    assert not [event for event in cluster.events if event.reason == "Stalled"]


def test_missing_node_stalls_at_the_deadline() -> None:
    cluster = Cluster(resource(replicas=1), cards=0)
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    since = NOW.fromisoformat(cluster.kind("Pod")[0]["status"]["conditions"][0]["lastTransitionTime"])
    begun = (since - NOW).total_seconds()
    assert kstatus_after(cluster, begun + DEADLINE - 1) == "InProgress"
    assert kstatus_after(cluster, begun + DEADLINE) == "Failed"
    assert stalled(cluster) == ("True", "Unschedulable")


def test_quota_refusal_stalls_at_the_deadline() -> None:
    cluster = Cluster(resource(replicas=1))
    cluster.operate()
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: cards"}
    (workload,) = cluster.kind("ReplicaSet")
    workload["status"] = {"conditions": [{**refused, "lastTransitionTime": stamp(NOW)}]}
    assert kstatus_after(cluster, DEADLINE - 1) == "InProgress"
    assert condition(cluster, "Reconciling") == ("True", "PodsRefused")
    assert kstatus_after(cluster, DEADLINE) == "Failed"


def refuse(cluster: Cluster) -> None:
    """Let the node refuse every pod of the ReplicaSet."""
    cluster.controllers()
    for each in cluster.kind("Pod"):
        if each["status"]["phase"] != "Failed":
            said = {"reason": "UnexpectedAdmissionError", "startTime": stamp(cluster.now)}
            each["status"] = {"phase": "Failed", "conditions": [], **said}


@pytest.mark.parametrize("kept", [True, False], ids=["pods stay", "pods are gone"])
def test_repeated_refusals_share_one_deadline(kept: bool) -> None:
    cluster = Cluster(resource(replicas=1))
    first = None
    while first is None or (cluster.now - first).total_seconds() < DEADLINE - 20:
        cluster.operate()
        refuse(cluster)
        first = first or cluster.now
        cluster.operate()
        assert condition(cluster, "Stalled") == ("False", "NotStalled")
        for each in () if kept else cluster.kind("Pod"):
            cluster.delete("Pod", each["metadata"]["name"])
        cluster.now += timedelta(seconds=15)
    assert kstatus_after(cluster, (first - NOW).total_seconds() + DEADLINE) == "Failed"
    assert stalled(cluster) == ("True", "PodsFail")


def test_long_warm_up_after_a_refusal_is_not_a_stall() -> None:
    cluster = Cluster(resource(replicas=1))
    for _ in range(2):
        cluster.operate()
        refuse(cluster)
        cluster.now += timedelta(seconds=15)
    cluster.operate()
    cluster.controllers()
    assert kstatus_after(cluster, 2 * DEADLINE) == "InProgress"
    assert condition(cluster, "Reconciling") == ("True", "PodsFail")
    (tried,) = (each["metadata"]["name"] for each in cluster.kind("Pod") if each["status"]["phase"] != "Failed")
    cluster.objects["Pod", tried]["status"] = {"phase": "Failed", "conditions": [], "reason": "Evicted"}
    assert kstatus_after(cluster, 2 * DEADLINE + 1) == "Failed"


@pytest.mark.parametrize(
    ("message", "reason"),
    [("no cards", "Unschedulable"), ("pod has unbound immediate PersistentVolumeClaims", "VolumeNotBound")],
)
def test_unscheduled_pod_waits_since_the_schedulers_decision(message: str, reason: str) -> None:
    since = NOW - timedelta(seconds=40)
    scheduled = pod_condition("PodScheduled", False, "Unschedulable", message, stamp(since))
    found = problem_of(view(pod(container=None, conditions=(scheduled,))), state_of(), RoomCriterion(to_come=False))
    assert found
    assert (found.reason, found.since) == (reason, since)


@pytest.mark.parametrize("deadline", [1, DEADLINE])
def test_long_wait_in_a_queue_is_not_a_stall(deadline: int) -> None:
    cluster = Cluster(resource(replicas=1, rollout={"obstacleDeadlineSeconds": deadline}), cards=0, queue=True)
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    assert kstatus_after(cluster, 100 * DEADLINE) == "InProgress"
    assert condition(cluster, "Reconciling") == ("True", "SchedulingGated")
    # A pod with a scheduling gate has no deadline, so no requeue is scheduled.
    assert cluster.operate().requeue_after is None


def test_deadline_does_not_run_while_replacement_in_place_is_pending() -> None:
    refused = {
        "type": "ReplicaFailure",
        "status": "True",
        "message": "exceeded quota",
        "lastTransitionTime": stamp(NOW),
    }
    later = NOW + timedelta(seconds=40)
    workload = {"metadata": {"name": "tiny-1"}, "status": {"conditions": [refused]}}
    found = first_problem_of([], [workload], state_of(now=later), RoomCriterion(to_come=False, in_place_after=90))
    assert found
    assert (found.reason, found.since) == ("PodsRefused", later)
    assert "If the ReplicaSet cannot create pods for 90 s (spec.rollout.surgeTimeoutSeconds)" in found.message


def groups(**rollout: int) -> GroupCluster:
    pair = {"engine": {"name": "sim"}, "parallelism": {"tensor": 2, "nodes": 2}}
    return GroupCluster(resource(rollout=rollout, **pair), groups_served=False)


def test_leader_worker_sets_may_be_installed_until_the_deadline() -> None:
    cluster = groups()
    assert kstatus_after(cluster, 1) == "InProgress"
    assert condition(cluster, "PlanAccepted") == ("False", "LeaderWorkerSetMissing")
    assert kstatus_after(cluster, DEADLINE) == "InProgress"
    assert kstatus_after(cluster, DEADLINE + 1) == "Failed"
    assert kstatus_after(cluster, DEADLINE + 2) == "Failed"
    cluster.groups_served = True
    cluster.settle()
    assert kstatus(cluster.resource) == "Current"


def test_refusal_after_a_different_reason_starts_a_new_deadline() -> None:
    cluster = groups()
    cluster.change(accelerator={"deviceMemory": "1"})
    assert kstatus_after(cluster, 1) == "Failed"
    cluster.change(accelerator={"deviceMemory": None})
    for seconds in (1000, 1001, 1000 + DEADLINE - 1):
        assert kstatus_after(cluster, seconds) == "InProgress"
    assert kstatus_after(cluster, 1000 + DEADLINE) == "Failed"


@pytest.mark.parametrize(
    ("reason", "waited"),
    [*((reason, True) for reason in sorted(PASSING_REASONS)), ("ModelNotFound", False), ("ConfigInvalid", False)],
)
def test_failed_runtime_with_restart_stalls_at_the_deadline(reason: str, waited: bool) -> None:
    failed = view(report=report(Phase.FAILED, failure=RuntimeFailureReport(reason=reason, message="Gone.")))
    found = problem_of(failed, state_of(), RoomCriterion(to_come=False))
    assert found
    assert (found.since is not None) is waited


def at(seconds: int) -> Problem:
    return Problem("Unschedulable", "", since=NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([at(5), at(3)], at(3)),
        ([at(3), Problem("WarmupStalled", ""), Problem("StartFailed", "")], Problem("WarmupStalled", "")),
        ([], None),
    ],
)
def test_worst_problem_is_permanent_or_the_oldest(found: list[Problem], expected: Problem | None) -> None:
    assert worst_unresolved_problem(found) == expected
