"""The parts that all children have: labels, the owner reference, and the hash of the applied content."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.core.inference import Inference, InferenceIdentity
from gaudi_operator.core.names import (
    APPLIED_HASH_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.text_formats import short_text_hash

Object = dict[str, Any]


def child_with_metadata(
    api_version: str,
    kind: str,
    name: str,
    owner: InferenceIdentity,
    body: Object,
    revision: str | None = None,
    annotations: Mapping[str, str] | None = None,
    *,
    outlives_owner: bool = False,
) -> Object:
    """Return a child of `owner` with the top-level fields of `body` and the hash of its content.

    If `outlives_owner` is True, the child has the owner's labels but no owner reference.

    A later reconcile compares the hash to detect fields that were removed from the applied content. Fields that are
    still applied are compared with the live object. `blockOwnerDeletion` is false, because true requires a permission
    on finalizers.
    """
    metadata: Object = {
        "name": name,
        "namespace": owner.namespace,
        "labels": child_labels(owner, revision),
        **({"annotations": dict(annotations)} if annotations else {}),
        **({} if outlives_owner else {"ownerReferences": [_owner_reference(owner)]}),
    }
    return add_applied_hash_annotation({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})


def add_applied_hash_annotation(manifest: Object) -> Object:
    """Return the manifest with an annotation that contains the hash of its content."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_HASH_ANNOTATION: short_text_hash(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def child_labels(owner: InferenceIdentity, revision: str | None = None) -> dict[str, str]:
    """Return the labels of a child. If the child belongs to a revision, a label also names the revision."""
    labels = {**selector_labels(owner), MANAGED_BY_LABEL: MANAGED_BY}
    return labels if revision is None else {**labels, REVISION_LABEL: revision}


def selector_labels(owner: InferenceIdentity) -> dict[str, str]:
    """Return the pod labels that select all pods of a resource."""
    return {NAME_LABEL: owner.name}


def traffic_labels(inference: Inference) -> dict[str, str]:
    """Return the pod labels that select one pod per replica. If a replica is a group, this pod is the leader."""
    has_several_nodes = inference.spec.parallelism.nodes > 1
    return {**selector_labels(inference.identity), **({WORKER_INDEX_LABEL: "0"} if has_several_nodes else {})}


def revision_labels(owner: InferenceIdentity, revision: str) -> dict[str, str]:
    """Return the pod labels that select all pods of one revision."""
    return {**selector_labels(owner), REVISION_LABEL: revision}


def _owner_reference(owner: InferenceIdentity) -> Object:
    """Return the owner reference of a child. The garbage collector then deletes the child with its owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
