"""A resource in an in-memory cluster, and queries about its objects."""

from typing import Any

from gaudi_operator.core.actions import Apply, Decision
from gaudi_operator.core.names import REVISION_LABEL
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource

CHILDREN = (
    "ControllerRevision",
    "ServiceAccount",
    "ConfigMap",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "ReplicaSet",
)


def served(**spec: Any) -> Cluster:
    """Return a cluster in which the resource is fully rolled out."""
    cluster = Cluster(resource(**{"replicas": 2, **spec}))
    cluster.settle()
    return cluster


def status(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.resource["status"]
    return found


def condition(cluster: Cluster, kind: str) -> tuple[str, str]:
    found = next(each for each in status(cluster)["conditions"] if each["type"] == kind)
    return found["status"], found["reason"]


def kinds(plan: Decision) -> list[str]:
    return [action.manifest["kind"] for action in plan.actions if isinstance(action, Apply)]


def pod_names(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.kind("Pod")]


def revisions(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["labels"][REVISION_LABEL] for pod in cluster.kind("Pod")}
