"""Kueue with its integration for plain pods. The manifests come from Kueue's Go module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from demo.install import Installation
from localcluster.errors import LocalClusterError
from localcluster.programs import build
from localcluster.sandbox.processes import wait_until
from tests.ecosystem.parts import KUEUE

PATIENCE = 120
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
CARDS = "habana.ai/gaudi"
_API = "kueue.x-k8s.io/v1beta2"
_USER = 65532
_CONFIG = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": ":8081"},
    "webhook": {"port": 9443},
    "integrations": {"frameworks": ["pod"]},
    # Exclude these resources, so that the quota limits only cards.
    "resources": {"excludeResourcePrefixes": ["cpu", "memory", "ephemeral-storage", "hugepages-"]},
}


def install(installed: Installation) -> None:
    """Install Kueue, and create the queue `models` and a high priority. Return when Kueue accepts queues."""
    installed.cluster.load_folder(KUEUE.build(), f"localhost/{KUEUE.name}:ecosystem")
    source = Path(build.go(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"], KUEUE.folder).strip())
    documents = yaml.safe_load_all(installed.kubectl("kustomize", str(source / "config" / "default")))
    manifests = yaml.safe_dump_all(_adapt(documents))
    installed.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    rollout = ("rollout", "status", "deployment/kueue-controller-manager", "--timeout=120s")
    installed.kubectl("--namespace", KUEUE.namespace, *rollout)
    wait_until(lambda: _accepts(installed), "Kueue to accept a queue", PATIENCE)


def _adapt(documents: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for document in documents:
        if document["kind"] == "APIService":
            continue
        if document["kind"] == "ConfigMap":
            document["data"] = {"controller_manager_config.yaml": yaml.safe_dump(_CONFIG)}
        if document["kind"] == "Deployment":
            (manager,) = document["spec"]["template"]["spec"]["containers"]
            manager |= {"image": f"localhost/{KUEUE.name}:ecosystem", "imagePullPolicy": "Never", "resources": {}}
            manager["command"] = ["/program"]
            manager["securityContext"]["runAsUser"] = _USER  # the image sets no user
        yield document


def _accepts(installed: Installation) -> bool:
    """Return whether Kueue accepts a queue. Kueue's webhooks start to listen some time after Kueue is Ready."""
    quota = {"name": "cards", "resources": [{"name": CARDS, "nominalQuota": "8"}]}
    queue = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": [CARDS], "flavors": [quota]}],
    }
    manifests = (
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "cards"}},
        {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": "models"}, "spec": queue},
        {"apiVersion": _API, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
    )
    try:
        installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    except LocalClusterError:
        return False
    return True


def local_queue(installed: Installation, namespace: str) -> None:
    """Create a queue that admits the pods of a namespace."""
    queue = {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": "models", "namespace": namespace},
        "spec": {"clusterQueue": "models"},
    }
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(queue))
