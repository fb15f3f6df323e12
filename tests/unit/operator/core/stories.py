"""A resource in an in-memory cluster, and queries about its objects."""

import json
from typing import Any

from gaudi_operator.core.actions import Apply, Decision
from gaudi_operator.core.names import FAILURE_ANNOTATION, REVISION_LABEL
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
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
BIGGER = {"maxModelLen": 512}
STALL: dict[str, Any] = {
    "phase": Phase.COMPILING,
    "prompt": PhaseProgressReport(planned=8, warmed=3, current=(1, 128, 0)),
    "since_progress_seconds": 1801,
}
"""A report of a pod whose warm-up has stalled."""


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


def canary_of(cluster: Cluster, good: str) -> str:
    """Return the pod of the new revision, if it exists."""
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    (name,) = [name for name in pod_names(cluster) if not name.startswith(f"tiny-{good}")]
    return name


def failing_upgrade(how: dict[str, Any] = STALL, **rollout: Any) -> tuple[Cluster, str, str]:
    """Return a cluster whose new revision has just failed, and the names of the good and the failed revision."""
    cluster = served(rollout=rollout)
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    name = canary_of(cluster, good)
    cluster.report(name, **how)
    cluster.operate()
    return cluster, good, name.removeprefix("tiny-").rsplit("-", 1)[0]


def failure_of(cluster: Cluster, revision: str) -> dict[str, str] | None:
    """Return the recorded failure of a revision, or None."""
    annotations = cluster.objects["ControllerRevision", f"tiny-{revision}"]["metadata"]["annotations"]
    return json.loads(annotations[FAILURE_ANNOTATION]) if FAILURE_ANNOTATION in annotations else None
