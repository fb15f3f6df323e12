"""The LeaderWorkerSet controller on a cluster, for replicas over several nodes, where a test or a user asks for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from localcluster import build
from localcluster.cluster import Cluster
from localcluster.errors import LocalClusterError
from localcluster.processes import wait_until
from localcluster.progress import step

IMAGE = f"localhost/leader-worker-sets:{build.LEADER_WORKER_SETS}"
NAMESPACE = "lws-system"
_PATIENCE_SECONDS = 120
_USER = 65532
_PROBE: dict[str, Any] = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "probe", "namespace": "default"},
    "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}},
}


def install(cluster: Cluster) -> None:
    """Install the controller, or bring it up to date, and return when it admits LeaderWorkerSets."""
    folder = build.leader_worker_sets()
    with step(f"Installing the LeaderWorkerSet controller {build.LEADER_WORKER_SETS}"):
        cluster.folder_image(folder / "image", IMAGE)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=_manifests(cluster, folder))
        wait_until(lambda: _admits(cluster), "the LeaderWorkerSet controller to admit", _PATIENCE_SECONDS)


def _manifests(cluster: Cluster, folder: Path) -> str:
    documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(folder / "config" / "default")))
    return yaml.safe_dump_all(fitted(documents))


def fitted(documents: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same manifests with one controller, of our image, that asks for nothing."""
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 1
            (manager,) = document["spec"]["template"]["spec"]["containers"]
            manager |= {"image": IMAGE, "imagePullPolicy": "Never", "resources": {}}
            manager["securityContext"]["runAsUser"] = _USER  # the image names none
        yield document


def _admits(cluster: Cluster) -> bool:
    """Its readiness is green before its webhooks listen: only an answer of theirs tells."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(_PROBE))
    except LocalClusterError:
        return False
    return True
