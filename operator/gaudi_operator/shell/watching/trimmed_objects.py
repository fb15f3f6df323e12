"""Trimmed objects: only the fields that the operator reads, with equal texts stored once.

1,000 resources have 10,000 objects. Most of their content is for other programs: container defaults, replica counts and
managed fields. This content would take memory, and changes of this content would trigger useless reconciles.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict

from msgspec import Raw, ValidationError, convert
from msgspec.json import Decoder

from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.inference import drop_oversized_inference_blocks
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, GROUP_SIZE_ANNOTATION
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.text_formats import hash_texts, short_text_hash
from gaudi_operator.shell.kinds import (
    AUTOSCALER,
    CLASS,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    KINDS,
    LEADER_WORKER_SET,
    POD,
    REPLICA_SET,
    RESOURCE,
    STATEFUL_SET,
    Kind,
)


class _Metadata(TypedDict, total=False):
    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    labels: Any
    annotations: Any
    ownerReferences: Any


class _Object(TypedDict, total=False):
    """The fields of any kind that the operator reads. Add a new field here, or only to the shape of one kind."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: Any
    data: Any
    immutable: Any
    revision: Any
    automountServiceAccountToken: Any


class _ObjectWithStatus(_Object, total=False):
    status: Any


class _Conditions(TypedDict, total=False):
    conditions: Any


class _Workload(_Object, total=False):
    """The fields of a workload: the status has only conditions, because the operator counts the pods itself."""

    status: _Conditions


class _AutoscalerStatus(_Conditions, total=False):
    desiredReplicas: Any


class _Autoscaler(_Object, total=False):
    status: _AutoscalerStatus


class _Container(TypedDict, total=False):
    name: Any
    ports: Any


class _InitContainer(TypedDict, total=False):
    name: Any
    restartPolicy: Any


class _SchedulingGate(TypedDict, total=False):
    name: Any


class _PodSpec(TypedDict, total=False):
    """The fields of a pod spec: containers, ports and scheduling gates. The pod's revision has all other fields."""

    containers: list[_Container]
    initContainers: list[_InitContainer]
    schedulingGates: list[_SchedulingGate]


class _Pod(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: _PodSpec
    status: Any


class _MetadataOnly(TypedDict, total=False):
    """The fields that identify an object and its owner."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata


_SHAPES: Mapping[Kind, Any] = {
    RESOURCE: _ObjectWithStatus,
    CLASS: _ObjectWithStatus,
    POD: _Pod,
    REPLICA_SET: _Workload,
    LEADER_WORKER_SET: _Workload,
    STATEFUL_SET: _MetadataOnly,
    AUTOSCALER: _Autoscaler,
}
"""The shapes by kind. The status of other children is not read."""

_ANYTHING = Decoder(dict[str, Any])
_READERS = {kind: Decoder(_SHAPES.get(kind, _Object)) for kind in KINDS.values()}

_TEMPLATE_FIELDS = {CONTROLLER_REVISION: "data", REPLICA_SET: "spec", LEADER_WORKER_SET: "spec"}
"""The field with pod templates by kind. The store keeps it as compressed JSON, which takes a third of the JSON text.

Python values take 6 to 19 times as much as the text, and any client can write such objects.
"""

_READ_ANNOTATIONS: Mapping[Kind, tuple[str, ...]] = {
    RESOURCE: (f"{GROUP}/",),
    POD: (f"{GROUP}/", GROUP_SIZE_ANNOTATION, DELETION_COST_ANNOTATION),
}
"""The prefixes of annotations that the operator reads. Other clients may add up to 256 KiB to these kinds."""

_OTHERS = "digest"
"""The key of a hash of the annotations that the operator does not read, so that their changes are visible."""

_DEEPEST = 40
"""The maximum nesting depth of copies, more than in the operator's objects. Deeper values are kept unchanged."""


def read_trimmed_object(kind: Kind, text: bytes | Raw) -> dict[str, Any]:
    """Decode only the trimmed fields of an object from JSON. This takes a tenth of a full decode. Raises ValueError."""
    try:
        trimmed: dict[str, Any] = _READERS[kind].decode(text)
    except ValidationError:
        # Accept an object of unexpected form. The API server validates objects, but a single invalid object may not
        # stop the watch of all other objects.
        return _ANYTHING.decode(text)
    return trimmed


def select_trimmed_fields(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """Return an object with only the fields that the operator reads. An object of unknown form stays unchanged."""
    try:
        trimmed: dict[str, Any] = convert(manifest, _SHAPES.get(kind, _Object))
    except ValidationError:
        return dict(manifest)
    return trimmed


def trim_object(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """Return the trimmed object in the form that the store keeps."""
    trimmed = select_trimmed_fields(kind, manifest)
    if kind is CONFIG_MAP and "data" in trimmed:
        trimmed["data"] = hash_texts(trimmed["data"])
    if kind in _READ_ANNOTATIONS and isinstance(annotations := trimmed["metadata"].get("annotations"), Mapping):
        kept = {name: value for name, value in annotations.items() if name.startswith(_READ_ANNOTATIONS[kind])}
        if kind is RESOURCE and len(kept) < len(annotations):
            # Keep a hash of the other annotations, because a change of any annotation of a resource triggers a
            # reconcile.
            kept[_OTHERS] = short_text_hash(annotations)
        trimmed["metadata"] = {**trimmed["metadata"], "annotations": kept}
    if kind is RESOURCE and isinstance(trimmed.get("spec"), Mapping):
        trimmed["spec"] = drop_oversized_inference_blocks(trimmed["spec"])
    encoded = _TEMPLATE_FIELDS.get(kind)
    return {name: value if name == encoded else _share_strings(value, _DEEPEST) for name, value in trimmed.items()}


def encode_trimmed_templates(kind: Kind, trimmed: dict[str, Any]) -> dict[str, Any]:
    """Return a trimmed object with its pod templates as compressed JSON."""
    name = _TEMPLATE_FIELDS.get(kind)
    return {**trimmed, name: zlib.compress(json.dumps(trimmed[name]).encode(), 1)} if name in trimmed else trimmed


def decode_trimmed_templates(observed: Observed) -> Observed:
    """Return a snapshot of the store with the pod templates as JSON values, for one decision."""
    return replace(
        observed,
        revisions=_decode_field("data", observed.revisions),
        replica_sets=_decode_field("spec", observed.replica_sets),
        leader_worker_sets=_decode_field("spec", observed.leader_worker_sets),
    )


def _decode_field(name: str, manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    return tuple(
        {**manifest, name: json.loads(zlib.decompress(manifest[name]))} if name in manifest else manifest
        for manifest in manifests
    )


def equal_trimmed_objects(one: Manifest, other: Manifest) -> bool:
    """Return True if two trimmed versions of an object are equal except for their resource versions."""
    return _drop_version(one) == _drop_version(other)


def _drop_version(manifest: Manifest) -> dict[str, Any]:
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "resourceVersion"}
    return {**manifest, "metadata": metadata}


def _share_strings(value: Any, max_depth: int) -> Any:
    """Return a copy with shared strings, because JSON decoding creates new strings for each object."""
    if type(value) is str:
        return _share_string(value)
    if max_depth and type(value) is dict:
        return {_share_string(name): _share_strings(item, max_depth - 1) for name, item in value.items()}
    if max_depth and type(value) is list:
        return [_share_strings(item, max_depth - 1) for item in value]
    return value


_STRINGS: dict[str, str] = {}
_MAX_STRINGS, _MAX_LENGTH = 10_000, 256
"""The limits of the shared strings, which take 10 MiB at most. Names and labels of Kubernetes are shorter."""


def _share_string(text: str) -> str:
    # Do not use sys.intern(), because its table of unique strings takes nearly as much memory as the strings.
    if len(text) > _MAX_LENGTH:
        return text
    if len(_STRINGS) >= _MAX_STRINGS:
        _STRINGS.clear()
    return _STRINGS.setdefault(text, text)
