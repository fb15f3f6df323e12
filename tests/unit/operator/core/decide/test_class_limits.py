"""Class limits of the Service, clients, PVC and surge: a violation leaves the children unchanged."""

from typing import Any

from tests.support.builders import Object
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status

OPEN = {"from": "Everyone"}
EVERY_NAMESPACE = [{"namespaceSelector": {}}]
OWN_NAMESPACE = [{"podSelector": {}}]
PUBLISHED = {"type": "LoadBalancer", "annotations": {"dns.example.com/name": "shop"}}
RANGE = {"from": "Clients", "clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}


def of_class(limits: Object, **spec: Any) -> Cluster:
    """Return a serving cluster whose resource uses the default class."""
    cluster = Cluster(resource(**{"replicas": 2, **spec}), classes=(gaudi_class(default=True, limits=limits),))
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")
    return cluster


def limit(cluster: Cluster, limits: Object) -> None:
    """Set the limits of the class."""
    cluster.classes = (gaudi_class(default=True, limits=limits),)
    cluster.settle()


def clients(cluster: Cluster) -> list[Object]:
    (policy,) = cluster.kind("NetworkPolicy")
    found: list[Object] = policy["spec"]["ingress"][0]["from"]
    return found


def service(cluster: Cluster) -> Object:
    (found,) = cluster.kind("Service")
    return found


def test_open_clients_need_a_class() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.change(networkAccess=OPEN)
    cluster.settle()
    assert clients(cluster) == OWN_NAMESPACE
    assert condition(cluster, "PlanAccepted") == ("False", "NeedsClass")
    assert [each["message"] for each in status(cluster)["conditions"] if each["type"] == "PlanAccepted"] == [
        "spec.networkAccess lets every namespace reach the model port (limits.allowAllClients). "
        "Remove the setting, or use a class that allows it."
    ]
    assert (pod_names(cluster), condition(cluster, "Available")[0]) == (before, "True")


def test_new_open_model_gets_no_children_without_a_class() -> None:
    cluster = Cluster(resource(networkAccess=OPEN))
    assert cluster.operate().actions == ()
    assert condition(cluster, "PlanAccepted") == ("False", "NeedsClass")


def test_class_allows_open_clients() -> None:
    cluster = of_class({"allowAllClients": True}, networkAccess=OPEN)
    assert clients(cluster) == EVERY_NAMESPACE


def test_network_policy_is_kept_until_a_class_allows_its_removal() -> None:
    cluster = served()
    cluster.change(networkAccess={"from": "Unmanaged"})
    cluster.settle()
    assert clients(cluster) == OWN_NAMESPACE
    assert condition(cluster, "PlanAccepted") == ("False", "NeedsClass")


def test_open_model_is_unchanged_when_its_class_forbids_it() -> None:
    cluster = of_class({"allowAllClients": True}, networkAccess=OPEN)
    limit(cluster, {})
    assert clients(cluster) == EVERY_NAMESPACE
    assert condition(cluster, "PlanAccepted") == ("False", "ForbiddenByClass")
    del cluster.objects["NetworkPolicy", "tiny"]
    cluster.settle()
    assert clients(cluster) == OWN_NAMESPACE


def test_forbidden_service_type_changes_no_service() -> None:
    cluster = of_class({"serviceTypes": []})
    cluster.change(service=PUBLISHED, networkAccess=RANGE)
    cluster.settle()
    assert (service(cluster)["spec"]["type"], condition(cluster, "PlanAccepted")[1]) == (
        "ClusterIP",
        "ForbiddenByClass",
    )


def test_published_service_is_unchanged_when_its_class_forbids_it() -> None:
    cluster = of_class({}, service=PUBLISHED, networkAccess=RANGE)
    limit(cluster, {"serviceTypes": [], "serviceAnnotationPrefixes": ["team/"]})
    assert service(cluster)["spec"]["type"] == "LoadBalancer"
    del cluster.objects["Service", "tiny"]
    cluster.settle()
    assert service(cluster)["spec"]["type"] == "ClusterIP"
    assert "dns.example.com/name" not in service(cluster)["metadata"]["annotations"]


def test_recipe_pvc_is_not_enlarged_beyond_the_class() -> None:
    cluster = of_class({"maxRecipeCacheSize": "30Gi"}, recipeCache={})
    cluster.change(recipeCache={"size": "1Ti"})
    cluster.settle()
    assert condition(cluster, "PlanAccepted") == ("False", "ForbiddenByClass")
    (claim,) = cluster.kind("PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"


def test_surge_beyond_the_class_stops_a_rollout() -> None:
    cluster = of_class({"maxSurge": 1}, replicas=4)
    before = revisions(cluster)
    cluster.change(engine={"maxNumSeqs": 3}, rollout={"maxSurge": 4})
    cluster.settle()
    assert (revisions(cluster), len(pod_names(cluster))) == (before, 4)
    assert condition(cluster, "Stalled") == ("True", "ForbiddenByClass")
    cluster.change(rollout={"maxSurge": 1})
    cluster.settle()
    assert revisions(cluster).isdisjoint(before)
