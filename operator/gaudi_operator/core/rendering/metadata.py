"""What all children have in common: labels, the owner, and the hash of what was applied."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.api.base import ApiModel
from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.core.names import (
    APPLIED_HASH_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.notation import short_hash
from gaudi_operator.core.resource import Identity, Inference

Object = dict[str, Any]


def as_written(model: ApiModel) -> Object:
    """What a user wrote in the form of Kubernetes, as it is, without what means the same when it is left out."""
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def child(
    api_version: str,
    kind: str,
    name: str,
    owner: Identity,
    body: Object,
    revision: str | None = None,
    annotations: Mapping[str, str] | None = None,
    *,
    outlives: bool = False,
) -> Object:
    """A child of `owner` with the further top-level fields of `body`, and the hash of it all as an annotation.

    One that `outlives` its owner belongs to it by its labels alone.

    The hash lets a later reconcile see that a field was dropped from what we apply; what we still apply is compared
    with the live object itself. `blockOwnerDeletion` stays false: true would ask for rights on finalizers.
    """
    metadata: Object = {
        "name": name,
        "namespace": owner.namespace,
        "labels": child_labels(owner, revision),
        **({"annotations": dict(annotations)} if annotations else {}),
        **({} if outlives else {"ownerReferences": [owner_reference(owner)]}),
    }
    return stamped({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})


def stamped(manifest: Object) -> Object:
    """The manifest with the hash of its content as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_HASH_ANNOTATION: short_hash(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def child_labels(owner: Identity, revision: str | None = None) -> dict[str, str]:
    """Labels of a child; those of one revision carry its name too."""
    labels = {**selector_labels(owner), MANAGED_BY_LABEL: MANAGED_BY}
    return labels if revision is None else {**labels, REVISION_LABEL: revision}


def selector_labels(owner: Identity) -> dict[str, str]:
    """What selects all pods of a resource."""
    return {NAME_LABEL: owner.name}


def traffic_labels(inference: Inference) -> dict[str, str]:
    """What selects the pods that stand for a replica: of a group its leader."""
    several = inference.spec.parallelism.nodes > 1
    return {**selector_labels(inference.identity), **({WORKER_INDEX_LABEL: "0"} if several else {})}


def revision_labels(owner: Identity, revision: str) -> dict[str, str]:
    """What selects the pods of one revision."""
    return {**selector_labels(owner), REVISION_LABEL: revision}


def owner_reference(owner: Identity) -> Object:
    """The controller reference of a child: the garbage collector deletes it with its owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
