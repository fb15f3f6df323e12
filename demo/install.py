"""The installation of images, chart and example on a cluster, for the demo and the end-to-end tests."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

from localcluster import Cluster, LocalClusterError, cluster, uses_own_node
from localcluster.cache import ensure_cached
from localcluster.programs import build

ROOT = Path(__file__).resolve().parent.parent
OPERATOR_IMAGE = "localhost/gaudi-operator:dev"
RUNTIME_IMAGE = "localhost/gaudi-runtime:dev"
MODEL_IMAGE = "localhost/tiny-llama:dev"
OPERATOR_NAMESPACE = "gaudi-system"
RELEASE = "gaudi-operator"
VOLUMES = 4
"""The number of volumes for recipes on our own node."""


@dataclass(frozen=True)
class Installation:
    """A cluster with the operator, its images, and the tiny model as an image."""

    cluster: Cluster

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator."""
        return self.cluster.kubeconfig

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its output. Raises LocalClusterError with the error output."""
        return self.cluster.kubectl(*arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """Run Helm and return its output. Raises LocalClusterError with the error output."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = [str(build.helm() / "helm"), *arguments]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if process.returncode:
            raise LocalClusterError(f"`helm {' '.join(arguments)}` failed: {process.stderr.strip()}")
        return process.stdout

    def apply_example(self, name: str, namespace: str) -> None:
        """Apply examples/NAME.yaml in a namespace, which is created if it is missing."""
        self.create_namespace(namespace)
        self.kubectl("apply", "--namespace", namespace, "-f", str(ROOT / "examples" / f"{name}.yaml"))

    def create_namespace(self, name: str) -> None:
        """Create a namespace that enforces the restricted Pod Security Standard."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))


def ensure_installation(name: str) -> Installation:
    """Return a running cluster with images and operator. Existing parts are updated."""
    cluster = ensure_cluster(name)
    installed = Installation(cluster)
    cluster.load_folder(checkpoint(), MODEL_IMAGE)
    if uses_own_node():
        create_volumes(installed)
    install_chart(installed)
    return installed


def create_volumes(installed: Installation) -> None:
    """Create a default storage class for our own node, with volumes in folders of this machine.

    A volume whose claim was deleted becomes available again, with its files.
    """
    folder, is_default = installed.kubeconfig.parent / "volumes", "storageclass.kubernetes.io/is-default-class"
    manifests: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local", "annotations": {is_default: "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    ]
    for number in range(VOLUMES):
        (folder / str(number)).mkdir(parents=True, exist_ok=True)
        manifests.append(local_volume(installed, f"local-{number}", folder / str(number), "local"))
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    released = "jsonpath={.items[?(@.status.phase=='Released')].metadata.name}"
    for name in installed.kubectl("get", "persistentvolumes", "-o", released).split():
        patch = '[{"op": "remove", "path": "/spec/claimRef"}]'
        installed.kubectl("patch", "persistentvolume", name, "--type=json", "-p", patch)


def local_volume(
    installed: Installation, name: str, folder: Path, storage_class: str = "", capacity: str = "1Gi"
) -> dict[str, Any]:
    """Return a PersistentVolume on `folder`. The folder belongs to root, as on a new disk."""
    nodes = installed.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    on_nodes = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    spec = {
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "storageClassName": storage_class,
        "capacity": {"storage": capacity},
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_nodes]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def checkpoint() -> Path:
    """Return the cached folder of the tiny checkpoint. The libraries that write it take ten seconds to load."""
    script = ROOT / "examples" / "make_tiny_checkpoint.py"

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, str(script), str(folder)], check=True, stdout=subprocess.DEVNULL)

    return ensure_cached(f"tiny-checkpoint-{crc32(script.read_bytes()):08x}", make)


def ensure_cluster(name: str) -> Cluster:
    """Return a running cluster with the images of operator and runtime."""
    return cluster(name, {"operator": OPERATOR_IMAGE, "runtime": RUNTIME_IMAGE})


def install_chart(installed: Installation, *settings: str) -> None:
    """Install or upgrade the chart and wait until the operator is ready. `settings` are Helm's key=value pairs."""
    image_values = (f"image.operator={OPERATOR_IMAGE}", f"image.runtime={RUNTIME_IMAGE}")
    values = (*image_values, "allowSimulation=true", *settings)
    options = [option for value in values for option in ("--set", value)]
    chart = str(ROOT / "charts" / "gaudi-operator")
    namespace = ("--namespace", OPERATOR_NAMESPACE)
    releases = installed.helm("list", *namespace, "--short").split()
    installed.helm("upgrade", RELEASE, chart, "--install", *namespace, "--create-namespace", "--wait", *options)
    if RELEASE in releases:  # restart, because the tag may refer to a new image
        installed.kubectl("rollout", "restart", *namespace, f"deployment/{RELEASE}")
        installed.kubectl("rollout", "status", *namespace, f"deployment/{RELEASE}", "--timeout=120s")
