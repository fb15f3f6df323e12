"""The ReplicaSet of one revision: the operator scales it, the ReplicaSet controller makes and deletes pods."""

from typing import Any

from gaudi_operator.core.inference import Identity
from gaudi_operator.core.manifests.metadata import Object, child, revision_labels
from gaudi_operator.core.names import IN_PLACE_ANNOTATION


def workload_name(owner: Identity, revision: str) -> str:
    """`<resource>-<revision>`."""
    return f"{owner.name}-{revision}"


def replica_set(
    owner: Identity, revision: str, template: dict[str, Any], replicas: int, in_place: str | None
) -> Object:
    """The ReplicaSet with a stored pod template; `in_place` says why it replaces pods in place (surge.py)."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": revision_labels(owner, revision)},
        "template": template,
    }
    name = workload_name(owner, revision)
    return child("apps/v1", "ReplicaSet", name, owner, {"spec": spec}, revision, in_place_annotation(in_place))


def in_place_annotation(in_place: str | None) -> dict[str, str]:
    """What keeps the answer of the scheduler on a workload; nothing while it surges."""
    return {IN_PLACE_ANNOTATION: in_place} if in_place else {}
