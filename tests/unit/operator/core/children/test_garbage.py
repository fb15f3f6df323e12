"""The number of kept revisions, and deletion of old workloads, ConfigMaps and revisions."""

import pytest

from gaudi_operator.core.actions import Delete
from gaudi_operator.core.children.child_actions import find_unused_children, unread_config_map_actions
from gaudi_operator.core.names import DESIRED_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.rollout.revision import Revision
from tests.support.builders import Object
from tests.unit.operator.core.pod_objects import pod
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import pod_names, revisions, served, status


def replica_set(replicas: int = 0, **annotations: str) -> Object:
    metadata: Object = {"name": "tiny-old", "uid": "u", "labels": {REVISION_LABEL: "old"}, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": replicas}}


def deletes(workload: Object, *pods: Object) -> list[Delete]:
    return find_unused_children(Observed(resource(), replica_sets=(workload,), pods=pods), ["new"], (), 5).deletes


def deleted(workload: Object, *pods: Object) -> list[str]:
    return [each.name for each in deletes(workload, *pods)]


def test_workload_without_pods_is_deleted() -> None:
    why = "its revision was replaced and has no pods"
    assert deletes(replica_set()) == [Delete("apps/v1", "ReplicaSet", "tiny-old", "u", why)]


def test_workload_that_gets_pods_again_is_kept() -> None:
    assert (
        find_unused_children(Observed(resource(), replica_sets=(replica_set(),)), ["new", "old"], (), 5).deletes == []
    )


def test_workload_stays_until_its_workers_have_ended() -> None:
    worker = pod()
    worker["metadata"]["labels"][REVISION_LABEL] = "old"
    observed = Observed(resource(), replica_sets=(replica_set(),), workers=(worker,))
    assert find_unused_children(observed, ["new"], (), 5).deletes == []
    worker["status"]["phase"] = "Succeeded"
    assert [each.name for each in find_unused_children(observed, ["new"], (), 5).deletes] == ["tiny-old"]


def test_terminating_workload_is_not_deleted_again() -> None:
    going = replica_set()
    going["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    assert deleted(going) == []


def test_pod_without_labels_keeps_its_workload() -> None:
    workload, nameless = replica_set(), pod()
    del workload["metadata"]["labels"], nameless["metadata"]["labels"]
    assert deleted(workload, nameless) == []


def test_unused_config_map_is_deleted() -> None:
    config_maps = tuple(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": f"u-{name}"}} for name in "ab"
    )
    found = unread_config_map_actions(Observed(resource(), config_maps=config_maps), {"a"})
    assert found == [Delete("v1", "ConfigMap", "b", "u-b", "no pod uses it")]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_ended_pod_does_not_keep_its_workload(phase: str) -> None:
    assert deleted(replica_set(), pod(revision="old", phase=phase)) == ["tiny-old"]


@pytest.mark.parametrize("terminating", [False, True])
def test_pod_that_may_still_run_keeps_its_workload(terminating: bool) -> None:
    assert deleted(replica_set(), pod(revision="old", terminating=terminating)) == []


def test_workload_with_new_pods_after_a_back_off_is_kept() -> None:
    assert deleted(replica_set(**{DESIRED_ANNOTATION: "1"})) == []


def kept(number: int) -> Object:
    metadata: Object = {"name": f"tiny-r{number}", "uid": f"u{number}", "labels": {REVISION_LABEL: f"r{number}"}}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": number}


def test_stable_revision_is_kept_with_the_shortest_history() -> None:
    manifests = tuple(kept(number) for number in (4, 3, 2, 1))
    stored = [Revision(f"r{number}", number, {}, {}, "") for number in (4, 3, 2, 1)]
    found = find_unused_children(Observed(resource(), revisions=manifests), ["r4"], stored, 1, stable="r1").deletes
    assert found == [Delete("apps/v1", "ControllerRevision", "tiny-r2", "u2", "the history of revisions is full")]


def test_old_workload_and_config_map_are_deleted_without_the_revision() -> None:
    cluster = served()
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    assert len(cluster.kind("ReplicaSet")) == 1
    assert len(cluster.kind("ConfigMap")) == 1
    assert [each["revision"] for each in cluster.kind("ControllerRevision")].count(2) == 1
    assert len(cluster.kind("ControllerRevision")) == 2


def test_revision_that_served_before_is_kept() -> None:
    cluster = served()
    (first,) = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    (second,) = revisions(cluster)
    assert status(cluster)["revision"] == {"current": second, "stable": second}
    assert [(row["name"], row["phase"]) for row in status(cluster)["revisions"]] == [
        (second, "Serving"),
        (first, "Kept"),
    ]


def test_history_is_limited() -> None:
    cluster = served(rollout={"revisionHistoryLimit": 2})
    for length in (512, 768, 1024, 1280):
        cluster.change(model={"maxModelLen": length})
        cluster.settle()
    assert sorted(each["revision"] for each in cluster.kind("ControllerRevision")) == [3, 4, 5]


def test_stable_revision_is_kept_while_scaled_to_zero() -> None:
    cluster = served(rollout={"revisionHistoryLimit": 1})
    (stable,) = revisions(cluster)
    cluster.change(replicas=0)
    cluster.settle()
    for length in (512, 768, 1024):
        cluster.change(model={"maxModelLen": length})
        cluster.settle()
    assert stable in {row["name"] for row in status(cluster)["revisions"]}


def test_old_workload_and_config_map_are_kept_until_pods_end() -> None:
    cluster = served(replicas=1)
    (old,) = cluster.kind("ReplicaSet")
    cluster.change(model={"maxModelLen": 512})
    while old["metadata"]["name"] in [each["metadata"]["name"] for each in cluster.kind("ReplicaSet")]:
        plan = cluster.operate()
        deleted = {action.kind for action in plan.actions if isinstance(action, Delete)}
        ending = [pod for pod in cluster.kind("Pod") if "deletionTimestamp" in pod["metadata"]]
        assert not (ending and deleted)
        cluster.controllers()
        for name in pod_names(cluster):
            cluster.warm(name)
        cluster.kubelet()
    assert deleted == {"ReplicaSet", "ConfigMap"}
