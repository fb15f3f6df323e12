"""A volume on a folder that this machine shares with the node."""

from pathlib import Path
from typing import Any

from demo.install import Installation

MODES = ["ReadWriteMany"]


def local_volume(
    installed: Installation, name: str, folder: Path, storage_class: str = "", capacity: str = "1Gi"
) -> dict[str, Any]:
    """Return a PersistentVolume on `folder`. The folder belongs to root, as on a new disk."""
    nodes = installed.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    on_nodes = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    spec = {
        "accessModes": MODES,
        "storageClassName": storage_class,
        "capacity": {"storage": capacity},
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_nodes]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
