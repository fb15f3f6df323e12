"""Scenarios of decide() for replicas that span several nodes."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.names import IN_PLACE_ANNOTATION, REVISION_LABEL, WORKER_INDEX_LABEL
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from tests.support.builders import Object
from tests.unit.operator.core.group_cluster import KIND, GroupCluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, revisions, status

PAIR = {"engine": {"name": "sim"}, "parallelism": {"tensor": 2, "nodes": 2}}
BIGGER = {"maxModelLen": 512}
STALL: dict[str, Any] = {
    "phase": Phase.COMPILING,
    "prompt": PhaseProgressReport(planned=8, warmed=3, current=(1, 128, 0)),
    "since_progress_seconds": 1801,
}


def fresh(**spec: Any) -> GroupCluster:
    """Return a cluster without children. Its resource has two replicas of two pods each."""
    return GroupCluster(resource(**{"replicas": 2, **PAIR, **spec}))


def served(**spec: Any) -> GroupCluster:
    """Return a cluster in which both replicas serve."""
    cluster = fresh(**spec)
    cluster.settle()
    return cluster


def groups(cluster: GroupCluster) -> dict[str, int]:
    """Return the desired number of groups by revision."""
    return {each["metadata"]["labels"][REVISION_LABEL]: each["spec"]["replicas"] for each in cluster.kind(KIND)}


def message(cluster: GroupCluster, kind: str) -> str:
    (found,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == kind]
    return str(found)


def turn(cluster: GroupCluster, *, warm: bool = True) -> None:
    """Let the operator and all controllers act once."""
    cluster.operate()
    cluster.controllers()
    for name in cluster.leaders() if warm else ():
        cluster.warm(name)
    cluster.kubelet()


def conditions_of(cluster: GroupCluster, name: str) -> dict[str, Object]:
    return {each["type"]: each for each in cluster.objects["Pod", name]["status"]["conditions"]}


def test_replica_is_a_leader_worker_set_without_a_replica_set() -> None:
    cluster = served()
    (revision,) = revisions(cluster)
    (workload,) = cluster.kind(KIND)
    assert workload["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
    assert (workload["metadata"]["name"], workload["spec"]["replicas"]) == (f"tiny-{revision}", 2)
    assert workload["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert cluster.kind("ReplicaSet") == []
    assert len(cluster.kind("Pod")) == 4


def test_only_leaders_have_the_gate_and_count_as_replicas() -> None:
    cluster = served()
    templates = cluster.kind(KIND)[0]["spec"]["leaderWorkerTemplate"]
    assert "readinessGates" in templates["leaderTemplate"]["spec"]
    assert "readinessGates" not in templates["workerTemplate"]["spec"]
    assert (status(cluster)["replicas"], status(cluster)["readyReplicas"]) == (2, 2)
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_services_and_autoscalers_select_only_leaders() -> None:
    cluster = served()
    (service,) = cluster.kind("Service")
    assert service["spec"]["selector"][WORKER_INDEX_LABEL] == "0"
    assert f"{WORKER_INDEX_LABEL}=0" in status(cluster)["selector"].split(",")


def test_every_pod_of_a_group_requests_its_cards() -> None:
    spread = {"tensor": 16, "nodes": 2}
    card = {"generation": "gaudi3", "deviceMemory": None}
    templates = served(accelerator=card, parallelism=spread).kind(KIND)[0]["spec"]["leaderWorkerTemplate"]
    limits = [
        templates[each]["spec"]["containers"][0]["resources"]["limits"] for each in ("leaderTemplate", "workerTemplate")
    ]
    assert [each["habana.ai/gaudi"] for each in limits] == ["8", "8"]


@pytest.mark.parametrize(("unavailable", "pods"), [(0, 5), (1, 5), (2, 3), (3, 0)])
def test_eviction_of_one_pod_removes_its_group(unavailable: int, pods: int) -> None:
    (budget,) = served(replicas=3, rollout={"maxUnavailable": unavailable}).kind("PodDisruptionBudget")
    assert budget["spec"]["minAvailable"] == pods


def test_groups_are_removed_in_their_controllers_order() -> None:
    cluster = served()
    cluster.change(replicas=1)
    plan = cluster.operate()
    assert not [action for action in plan.actions if isinstance(action, SetDeletionCost)]
    assert list(groups(cluster).values()) == [1]


def test_pods_of_a_resource_may_reach_each_other() -> None:
    (policy,) = served().kind("NetworkPolicy")
    assert {"from": [{"podSelector": {"matchLabels": {"inference.gaudi.dev/name": "tiny"}}}]} in policy["spec"][
        "ingress"
    ]


def test_status_names_the_missing_leader_worker_set_controller() -> None:
    cluster = fresh()
    cluster.groups_served = False
    cluster.settle()
    assert cluster.objects == {}
    assert condition(cluster, "Stalled") == ("True", "LeaderWorkerSetMissing")
    assert "Install the LeaderWorkerSet controller" in message(cluster, "Stalled")


def test_later_installation_of_the_controller_starts_groups() -> None:
    cluster = fresh()
    cluster.groups_served = False
    cluster.settle()
    cluster.groups_served = True
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_upgrade_replaces_groups_after_a_canary_within_limits() -> None:
    cluster = served(model={"maxModelLen": 256})
    (old,) = revisions(cluster)
    cluster.change(model=BIGGER)
    turn(cluster)
    assert sorted(groups(cluster).values()) == [1, 2]
    seen = []
    for _ in range(12):
        turn(cluster)
        seen.append(status(cluster)["readyReplicas"])
    assert min(seen) >= 2
    cluster.settle()
    assert old not in groups(cluster)
    assert list(groups(cluster).values()) == [2]
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_groups_replaced_in_place_keep_the_reason_on_their_workload() -> None:
    cluster = served(rollout={"surgeTimeoutSeconds": 30})
    cluster.cards = 4
    cluster.change(model=BIGGER)
    for _ in range(3):
        turn(cluster)
    cluster.now += timedelta(seconds=30)
    turn(cluster)
    assert [each for each in cluster.kind(KIND) if IN_PLACE_ANNOTATION in each["metadata"]["annotations"]]


def test_stalling_revision_is_rolled_back_while_the_good_one_serves() -> None:
    cluster = served()
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    turn(cluster)
    (bad,) = set(groups(cluster)) - {good}
    cluster.report(f"tiny-{bad}-0", **STALL)
    cluster.settle()
    assert groups(cluster) == {good: 2}
    assert condition(cluster, "Stalled") == ("True", "RolledBack")
    assert "WarmupStalled" in message(cluster, "Stalled")
    assert condition(cluster, "Available")[0] == "True"


def test_group_with_an_unscheduled_pod_is_unscheduled() -> None:
    cluster = fresh(replicas=1, rollout={"obstacleDeadlineSeconds": 30})
    cluster.cards = 1
    for _ in range(3):
        turn(cluster, warm=False)
    cluster.now += timedelta(seconds=31)
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "Unschedulable")


def test_worker_with_a_failing_container_is_named() -> None:
    cluster = fresh(replicas=1)
    for _ in range(3):
        turn(cluster, warm=False)
    (revision,) = revisions(cluster)
    (container,) = cluster.objects["Pod", f"tiny-{revision}-0-1"]["status"]["containerStatuses"]
    container |= {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    cluster.now += timedelta(seconds=600)
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "ImagePullBackOff")
    assert f"Pod tiny-{revision}-0-1 cannot start its container: no such image." in message(cluster, "Stalled")


def test_old_serving_group_is_kept_while_an_earlier_one_restarts() -> None:
    """The LeaderWorkerSet controller removes the last group first. Here, only the last group serves."""
    cluster = served()
    (old,) = revisions(cluster)
    cluster.lose(f"tiny-{old}-0")
    cluster.change(model=BIGGER)
    turn(cluster, warm=False)
    assert groups(cluster)[old] == 2
    assert conditions_of(cluster, f"tiny-{old}-1")["Ready"]["status"] == "True"


def test_deleted_set_of_an_old_revision_keeps_its_template() -> None:
    """Without the ControllerRevision, the operator reads the leader and worker templates from the LeaderWorkerSet."""
    cluster = served()
    (old,) = revisions(cluster)
    before = cluster.objects[KIND, f"tiny-{old}"]["spec"]["leaderWorkerTemplate"]
    cluster.change(model=BIGGER)
    turn(cluster, warm=False)
    del cluster.objects["ControllerRevision", f"tiny-{old}"]
    turn(cluster, warm=False)
    assert cluster.objects[KIND, f"tiny-{old}"]["spec"]["leaderWorkerTemplate"] == before


def test_restored_revision_uses_its_stored_template() -> None:
    cluster = served()
    (revision,) = revisions(cluster)
    stored = cluster.objects["ControllerRevision", f"tiny-{revision}"]["data"]["group"]
    templates = cluster.objects[KIND, f"tiny-{revision}"]["spec"]["leaderWorkerTemplate"]
    assert (stored["size"], stored["worker"]) == (2, templates["workerTemplate"])
