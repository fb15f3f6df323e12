"""The ReplicaSet of one revision: the operator scales it, the ReplicaSet controller makes and deletes pods."""

from typing import Any

from gaudi_operator.core.inference import Identity
from gaudi_operator.core.manifests.metadata import Object, child, revision_labels


def replica_set_name(owner: Identity, revision: str) -> str:
    """`<resource>-<revision>`."""
    return f"{owner.name}-{revision}"


def replica_set(owner: Identity, revision: str, template: dict[str, Any], replicas: int) -> Object:
    """The ReplicaSet with a stored pod template."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": revision_labels(owner, revision)},
        "template": template,
    }
    return child("apps/v1", "ReplicaSet", replica_set_name(owner, revision), owner, {"spec": spec}, revision)
