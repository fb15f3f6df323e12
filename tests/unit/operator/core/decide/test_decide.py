"""decide() stories of one resource."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.network import Client
from gaudi_operator.core.actions import Delete, SetGate
from gaudi_operator.core.decide import decide
from gaudi_operator.core.names import GATE
from gaudi_runtime.contract.report import Phase
from tests.support.builders import copied
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import DEFAULTS, resource
from tests.unit.operator.core.stories import CHILDREN, condition, kinds, pod_names, revisions, served, status


def test_first_reconcile_writes_every_child_and_pods_last() -> None:
    assert kinds(Cluster(resource()).operate()) == list(CHILDREN)


def test_installation_with_scrape_sources_serves() -> None:
    """The value of Helm's monitoring.from, with labels, which are not hashable."""
    prometheus = Client.model_validate({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "m"}}})
    cluster = Cluster(resource(), defaults=replace(DEFAULTS, monitoring_from=(prometheus,)))
    assert kinds(cluster.operate()) == list(CHILDREN)


def test_missing_child_is_written_with_that_reason() -> None:
    assert {action.reason for action in Cluster(resource()).operate().actions} == {"it does not exist"}


def test_resource_becomes_ready() -> None:
    cluster = served()
    assert status(cluster)["ready"] == "2/2"
    assert status(cluster)["phase"] == "Serving"
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert condition(cluster, "WarmedUp") == ("True", "WarmedUp")


def test_settled_resource_needs_no_action_and_no_status_write() -> None:
    cluster = served()
    writes = cluster.status_writes
    for _ in range(5):
        plan = cluster.operate()
        assert (plan.actions, plan.events, plan.requeue_after) == ((), (), None)
    assert cluster.status_writes == writes


def test_every_intermediate_status_conforms() -> None:
    cluster = Cluster(resource(replicas=2))
    for change in (
        {},
        {"model": {"maxModelLen": 512}},
        {"replicas": 0},
        {"engine": {"settings": {"VLLM_USE_V1": "1"}}},
    ):
        cluster.change(**change)
        for _ in range(12):
            cluster.operate()
            assert violations(cluster.resource) == []
            cluster.controllers()
            for name in pod_names(cluster)[:1]:
                cluster.warm(name)
            cluster.kubelet()


@pytest.mark.parametrize("kind", CHILDREN)
def test_deleted_child_is_created_again(kind: str) -> None:
    cluster = served()
    key, live = next((key, each) for key, each in cluster.objects.items() if key[0] == kind)
    del cluster.objects[key]
    cluster.settle()
    assert _written(cluster.objects[key]) == _written(live)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Service", ("spec", "ports", 0, "port")),
        ("ReplicaSet", ("spec", "replicas")),
        ("NetworkPolicy", ("spec", "policyTypes")),
        ("PodDisruptionBudget", ("spec", "minAvailable")),
        ("ServiceAccount", ("automountServiceAccountToken",)),
        ("ConfigMap", ("metadata", "ownerReferences", 0, "controller")),
    ],
)
def test_edited_child_is_restored(kind: str, path: tuple[Any, ...]) -> None:
    cluster = served()
    (live,) = cluster.kind(kind)
    desired = copied(live)
    place: Any = live
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = [7] if isinstance(place[path[-1]], list) else 7
    plan = cluster.operate()
    assert plan.actions[0].reason == f"{'.'.join(_labels(path))} was changed by another client"
    assert _written(cluster.kind(kind)[0]) == _written(desired)


def test_foreign_fields_are_kept() -> None:
    cluster = served()
    (service,) = cluster.kind("Service")
    service["spec"]["externalTrafficPolicy"] = "Local"
    service["metadata"]["annotations"]["example.com/s"] = "annotation"
    assert cluster.operate().actions == ()


def test_undesired_field_is_removed() -> None:
    cluster = served(service={"annotations": {"a": "b"}})
    cluster.change(service={"annotations": None})
    plan = cluster.operate()
    assert [action.reason for action in plan.actions] == ["the desired content has changed"]


def test_config_map_with_other_content_is_replaced() -> None:
    cluster = served()
    (config_map,) = cluster.kind("ConfigMap")
    desired = copied(config_map["data"])
    config_map["data"]["config.json"] = "{}"
    (action,) = cluster.operate().actions
    assert isinstance(action, Delete)
    assert action.reason == "its content does not match its name, and it is immutable: it is recreated"
    cluster.settle()
    assert cluster.kind("ConfigMap")[0]["data"] == desired


def test_broken_revision_never_replaces_what_serves() -> None:
    cluster = served()
    old = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.broken = {status(cluster)["revision"]["current"]}
    for _ in range(10):
        cluster.operate()
        cluster.controllers()
        cluster.kubelet()
    assert status(cluster)["readyReplicas"] == 2
    assert status(cluster)["revision"]["stable"] in old


def test_pod_stalls_only_after_the_terminating_one_has_left() -> None:
    cluster = served(replicas=1)
    ending, waiting = copied(cluster.kind("Pod")[0]), cluster.kind("Pod")[0]
    ending["metadata"] |= {"name": "ending", "uid": "uid-ending", "deletionTimestamp": "2026-08-01T12:00:00Z"}
    cluster.objects["Pod", "ending"] = ending
    since = {"lastTransitionTime": "2026-08-01T11:00:00Z", "message": "no cards"}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **since}
    waiting["status"] = {"phase": "Pending", "conditions": [scheduled]}
    cluster.operate()
    assert condition(cluster, "Stalled") == ("False", "NotStalled")
    del cluster.objects["Pod", "ending"]
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "Unschedulable")


def test_deleted_resource_is_left_to_the_garbage_collector() -> None:
    cluster = served()
    cluster.resource["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    cluster.objects.clear()
    assert cluster.operate().actions == ()


def test_zero_replicas_become_ready() -> None:
    cluster = served()
    cluster.change(replicas=0)
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "ScaledToZero")
    assert condition(cluster, "WarmedUp") == ("Unknown", "ScaledToZero")
    assert status(cluster)["phase"] == "ScaledToZero"
    assert cluster.kind("Pod") == []


def test_gates_are_written_before_anything_else() -> None:
    cluster = served()
    name = pod_names(cluster)[0]
    cluster.change(service={"port": 8080})
    cluster.restart(name)
    assert isinstance(cluster.operate().actions[0], SetGate)


def test_restarted_container_loses_its_gate_until_warm() -> None:
    cluster = served()
    name = pod_names(cluster)[0]
    cluster.restart(name)
    cluster.operate()
    cluster.kubelet()
    assert status(cluster)["ready"] == "1/2"
    cluster.report(name, Phase.COMPILING)
    cluster.operate()
    assert condition(cluster, "Degraded") == ("True", "ReplicasLost")
    cluster.settle()
    assert condition(cluster, "Degraded") == ("False", "AsExpected")
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_operator_without_any_report_keeps_status_and_gates() -> None:
    cluster = served()
    before = copied(status(cluster))
    cluster.reports.clear()
    assert cluster.operate().actions == ()
    coverage = [each for each in before["conditions"] if each["type"] != "BucketCoverage"]
    assert [each for each in status(cluster)["conditions"] if each["type"] != "BucketCoverage"] == coverage
    assert status(cluster)["capturedPercent"] == {"prompt": 100, "decode": 100}
    assert status(cluster)["buckets"] == before["buckets"]


def test_starting_operator_keeps_readiness_before_reports_arrive() -> None:
    cluster = served()
    cluster.reports.clear()
    observed = replace(cluster.observed(), status_written=None, status_held=None)
    plan = decide(observed, cluster.defaults)
    assert plan.status.model_dump(mode="json", by_alias=True, exclude_none=True) == cluster.resource["status"]
    assert plan.status_held == observed.now
    earlier = observed.now - timedelta(seconds=1)
    assert decide(replace(observed, status_held=earlier), cluster.defaults).status_held == earlier


def test_disabled_network_policy_is_deleted() -> None:
    cluster = served()
    cluster.classes = (gaudi_class(default=True, limits={"allowAllClients": True}),)
    cluster.settle()
    cluster.change(networkAccess={"enabled": False})
    assert [action.reason for action in cluster.operate().actions] == ["spec.networkAccess is switched off"]
    cluster.settle()
    assert cluster.kind("NetworkPolicy") == []


def test_service_account_is_not_created_if_another_is_named() -> None:
    cluster = served(pod={"serviceAccountName": "theirs"})
    assert cluster.kind("ServiceAccount") == []


def test_revisions_differing_only_in_the_pod_share_a_config_map() -> None:
    cluster = served()
    names = {each["metadata"]["name"] for each in cluster.kind("ConfigMap")}
    cluster.change(pod={"labels": {"team": "a"}})
    cluster.settle()
    assert {each["metadata"]["name"] for each in cluster.kind("ConfigMap")} == names


def test_old_revision_is_replaced_after_its_controller_revision_was_deleted() -> None:
    cluster = served()
    (old,) = cluster.kind("ControllerRevision")
    cluster.change(model={"maxModelLen": 512})
    del cluster.objects["ControllerRevision", old["metadata"]["name"]]
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert len(cluster.kind("ReplicaSet")) == 1


def test_crash_after_any_action_leads_to_the_same_result() -> None:
    for survived in range(8):
        cluster = served()
        cluster.change(model={"maxModelLen": 512})
        plan = decide(cluster.observed(), cluster.defaults)
        for action in plan.actions[:survived]:
            cluster.perform(action)
        cluster.settle()
        assert condition(cluster, "Ready") == ("True", "Serving")
        assert len(cluster.kind("ReplicaSet")) == 1


def test_each_event_is_published_once() -> None:
    cluster = served(replicas=1)
    reasons = [event.reason for event in cluster.events]
    assert reasons == ["RevisionDesired", "WarmedUp", "Ready"]


def test_host_path_is_refused_if_the_installation_forbids_it() -> None:
    model = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models"}}}
    cluster = Cluster(resource(model=model))
    cluster.defaults = replace(cluster.defaults, allow_host_path=())
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "HostPathNotAllowed")


def test_open_gate_has_the_operators_condition_type() -> None:
    cluster = served(replicas=1)
    (pod,) = cluster.kind("Pod")
    assert GATE in [each["type"] for each in pod["status"]["conditions"]]
    assert pod["spec"]["readinessGates"] == [{"conditionType": GATE}]


def _written(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields set by the API server."""
    given = ("uid", "creationTimestamp", "generation", "resourceVersion")
    return {**manifest, "metadata": {key: value for key, value in manifest["metadata"].items() if key not in given}}


def _labels(path: tuple[Any, ...]) -> list[str]:
    """Return a path as has_drifted names it, with list entries by their key."""
    names = {("ports", 0): "http", ("ownerReferences", 0): "tiny"}
    return [names.get((before, key), str(key)) for before, key in zip((None, *path), path, strict=False)]
