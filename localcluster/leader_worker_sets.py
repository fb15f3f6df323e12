"""The LeaderWorkerSet controller, for replicas over several nodes. It is installed only on request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from localcluster.cluster import Cluster
from localcluster.errors import LocalClusterError
from localcluster.programs import build
from localcluster.progress import step
from localcluster.sandbox.processes import wait_until

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
    """Install or update the controller, and return when it admits LeaderWorkerSets."""
    folder = build.leader_worker_sets()
    with step(f"Installing the LeaderWorkerSet controller {build.LEADER_WORKER_SETS}"):
        cluster.load_folder(folder / "image", IMAGE)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=_manifests(cluster, folder))
        wait_until(lambda: _admits(cluster), "the LeaderWorkerSet controller to admit", _PATIENCE_SECONDS)


def _manifests(cluster: Cluster, folder: Path) -> str:
    documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(folder / "config" / "default")))
    return yaml.safe_dump_all(adapt_manifests(documents))


def adapt_manifests(documents: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the manifests for one controller with our image and without resource requests."""
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 1
            (container,) = document["spec"]["template"]["spec"]["containers"]
            container |= {"image": IMAGE, "imagePullPolicy": "Never", "resources": {}}
            container["securityContext"]["runAsUser"] = _USER  # the image does not set a user
        yield document


def _admits(cluster: Cluster) -> bool:
    """Return True if the controller's webhooks answer. Its readiness probe succeeds before the webhooks listen."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(_PROBE))
    except LocalClusterError:
        return False
    return True
