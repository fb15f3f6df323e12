"""Children of a resource: created before pods, restored if missing or edited, and deleted if disabled."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.actions import Delete
from tests.support.builders import copied
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import DEFAULTS, resource
from tests.unit.operator.core.stories import CHILDREN, kinds, served


def test_first_reconcile_writes_every_child_and_pods_last() -> None:
    assert kinds(Cluster(resource()).operate()) == list(CHILDREN)


def test_installation_with_scrape_sources_creates_every_child() -> None:
    """Helm's value monitoring.from can contain labels, which are not hashable."""
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "m"}}}
    cluster = Cluster(resource(), defaults=replace(DEFAULTS, monitoring_from=(prometheus,)))
    assert kinds(cluster.operate()) == list(CHILDREN)


def test_missing_child_is_written_with_a_reason() -> None:
    assert {action.reason for action in Cluster(resource()).operate().actions} == {"it does not exist"}


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


def test_network_policy_of_unmanaged_access_is_deleted() -> None:
    cluster = served()
    cluster.classes = (gaudi_class(default=True, limits={"allowAllClients": True}),)
    cluster.settle()
    cluster.change(networkAccess={"from": "Unmanaged"})
    assert [action.reason for action in cluster.operate().actions] == ["spec.networkAccess.from is Unmanaged"]
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


def _written(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields set by the API server."""
    given = ("uid", "creationTimestamp", "generation", "resourceVersion")
    return {**manifest, "metadata": {key: value for key, value in manifest["metadata"].items() if key not in given}}


def _labels(path: tuple[Any, ...]) -> list[str]:
    """Return a path in the form of has_drifted(), which uses keys instead of indexes for list entries."""
    names = {("ports", 0): "http", ("ownerReferences", 0): "tiny"}
    return [names.get((before, key), str(key)) for before, key in zip((None, *path), path, strict=False)]


def test_terminating_child_is_created_again_after_its_deletion() -> None:
    cluster = served()
    (service,) = cluster.kind("Service")
    service["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    service["spec"]["type"] = "NodePort"
    assert cluster.operate().actions == ()
