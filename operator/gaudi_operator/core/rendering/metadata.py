"""The common parts of all children: labels, the owner, and the hash of the applied content."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.core.names import (
    APPLIED_HASH_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.resource import Identity, Inference
from gaudi_operator.core.text_formats import short_hash

Object = dict[str, Any]


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
    """Return a child of `owner` with the further top-level fields of `body`, and the hash of its content.

    A child that `outlives` its owner has no owner reference, only the owner's labels.

    From the hash, a later reconcile detects fields that were removed from the applied content. Fields that are still
    applied are compared with the live object. `blockOwnerDeletion` is false, because true requires a permission on
    finalizers.
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
    """Return the manifest with the hash of its content in its metadata, as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_HASH_ANNOTATION: short_hash(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def child_labels(owner: Identity, revision: str | None = None) -> dict[str, str]:
    """Return the labels of a child. The children of a revision also have the revision's name."""
    labels = {**selector_labels(owner), MANAGED_BY_LABEL: MANAGED_BY}
    return labels if revision is None else {**labels, REVISION_LABEL: revision}


def selector_labels(owner: Identity) -> dict[str, str]:
    """Return the labels in the metadata of pods that select all pods of a resource."""
    return {NAME_LABEL: owner.name}


def traffic_labels(inference: Inference) -> dict[str, str]:
    """Return the labels in the metadata of pods that select one pod per replica, which is the leader in a group."""
    several = inference.spec.parallelism.nodes > 1
    return {**selector_labels(inference.identity), **({WORKER_INDEX_LABEL: "0"} if several else {})}


def revision_labels(owner: Identity, revision: str) -> dict[str, str]:
    """Return the labels in the metadata of pods that select one revision."""
    return {**selector_labels(owner), REVISION_LABEL: revision}


def owner_reference(owner: Identity) -> Object:
    """Return the controller reference of a child, so that the garbage collector deletes the child with its owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
