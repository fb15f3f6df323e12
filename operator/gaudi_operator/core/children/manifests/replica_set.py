"""The ReplicaSet of one revision: the operator scales it, the ReplicaSet controller makes and deletes pods."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.core.children.manifests.metadata import Object, child, revision_labels
from gaudi_operator.core.names import DESIRED_ANNOTATION, IN_PLACE_ANNOTATION
from gaudi_operator.core.resource import Identity


def workload_name(owner: Identity, revision: str) -> str:
    """`<resource>-<revision>`."""
    return f"{owner.name}-{revision}"


def replica_set(
    owner: Identity, revision: str, template: dict[str, Any], replicas: int, annotations: Mapping[str, str]
) -> Object:
    """The ReplicaSet with a stored pod template and with `annotations` of the rollout."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": revision_labels(owner, revision)},
        "template": template,
    }
    name = workload_name(owner, revision)
    return child("apps/v1", "ReplicaSet", name, owner, {"spec": spec}, revision, annotations)


def rollout_annotations(in_place: str | None, desired: int | None) -> dict[str, str]:
    """What a workload keeps of its rollout, where there is something to keep.

    `in_place` is the scheduler's answer, why it replaces pods in place (rollout/mode.py); `desired` are the replicas
    that it has again after a back-off (rollout/backoff.py).
    """
    return {
        **({IN_PLACE_ANNOTATION: in_place} if in_place else {}),
        **({} if desired is None else {DESIRED_ANNOTATION: str(desired)}),
    }
