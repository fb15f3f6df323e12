"""Tests of decide(): which changes create a revision, which replace pods, and which restart nothing."""

from gaudi_operator.core.actions import Delete
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from tests.support.builders import Object
from tests.unit.operator.core.cluster import upgraded
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status


def test_scaling_creates_no_revision() -> None:
    cluster = served()
    before = revisions(cluster)
    cluster.change(replicas=4)
    cluster.settle()
    assert revisions(cluster) == before
    assert status(cluster)["ready"] == "4/4"


def test_revision_change_replaces_all_pods_above_the_minimum() -> None:
    cluster = served()
    before = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    for _ in range(20):
        cluster.operate()
        cluster.controllers()
        for name in pod_names(cluster):
            cluster.warm(name)
        cluster.kubelet()
        assert status(cluster)["readyReplicas"] >= 2
        assert status(cluster)["replicas"] <= 3
    cluster.settle()
    assert not revisions(cluster) & before
    assert condition(cluster, "Ready") == ("True", "Serving")


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


def test_terminating_child_is_created_again_after_its_deletion() -> None:
    cluster = served()
    (service,) = cluster.kind("Service")
    service["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    service["spec"]["type"] = "NodePort"
    assert cluster.operate().actions == ()


def test_reverted_spec_reuses_the_revision() -> None:
    cluster = served()
    first = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    cluster.change(model={"maxModelLen": 256})
    cluster.settle()
    assert revisions(cluster) == first
    assert sorted(each["revision"] for each in cluster.kind("ControllerRevision")) == [2, 3]


def test_requested_restart_replaces_all_pods() -> None:
    cluster = served()
    before = set(pod_names(cluster))
    cluster.resource["metadata"]["annotations"] = {RESTARTED_AT_ANNOTATION: "2026-08-01T12:00:00Z"}
    cluster.settle()
    assert not before & set(pod_names(cluster))


def test_newer_operator_restarts_nothing() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.defaults = upgraded(cluster.defaults)
    cluster.settle()
    assert pod_names(cluster) == before


def test_newer_crd_restarts_nothing() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.change(engine={"fromTheFuture": 1}, bucketing={"fromTheFuture": 1})
    cluster.settle()
    assert pod_names(cluster) == before


def test_new_pods_of_a_stored_revision_keep_its_image() -> None:
    cluster = served()
    cluster.defaults = upgraded(cluster.defaults)
    cluster.change(replicas=3)
    cluster.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.kind("Pod")} == {"runtime:1"}


def test_new_revision_uses_the_newer_image() -> None:
    cluster = served()
    cluster.defaults = upgraded(cluster.defaults)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.kind("Pod")} == {"runtime:2"}


def test_new_revision_uses_the_installations_current_collector() -> None:
    cluster = served()
    cluster.defaults = upgraded(cluster.defaults)
    cluster.change(replicas=3)
    cluster.settle()
    assert {traces_to(pod) for pod in cluster.kind("Pod")} == {None}
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    assert {traces_to(pod) for pod in cluster.kind("Pod")} == {"http://collector:4317"}


def traces_to(pod: Object) -> object:
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    return variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def test_threshold_change_restarts_nothing() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.change(readiness={"minCapturedPromptPercent": 90})
    cluster.settle()
    assert pod_names(cluster) == before
