"""Trimmed objects: only the fields that the operator reads, with equal texts stored once.

1,000 resources have 10,000 objects. Most of their content is for other programs: container defaults, replica counts and
managed fields. This content would take memory, and changes of this content would trigger useless reconciles.
"""

from collections.abc import Callable, Mapping
from sys import getsizeof, intern
from typing import Any, TypedDict

from msgspec import Raw, ValidationError, convert
from msgspec.json import Decoder

from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, GROUP_SIZE_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.text_formats import hash_texts, short_hash
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

_ALIKE = frozenset({CONTROLLER_REVISION, REPLICA_SET, LEADER_WORKER_SET})
"""Kinds with pod templates. These are the largest objects, and they are nearly equal in all resources."""

_READ_ANNOTATIONS: Mapping[Kind, tuple[str, ...]] = {
    RESOURCE: (f"{GROUP}/",),
    POD: (f"{GROUP}/", GROUP_SIZE_ANNOTATION, DELETION_COST_ANNOTATION),
}
"""The prefixes of annotations that the operator reads. Other clients may add up to 256 KiB to these kinds."""

_OTHERS = "digest"
"""The key of a hash of the annotations that the operator does not read, so that their changes are visible."""

_DEEPEST = 40
"""The maximum nesting depth of copies, more than in the operator's objects. Deeper values are kept unchanged."""


def read_trimmed(kind: Kind, text: bytes | Raw) -> dict[str, Any]:
    """Decode only the trimmed fields of an object from JSON. This takes a tenth of a full decode. Raises ValueError."""
    try:
        trimmed: dict[str, Any] = _READERS[kind].decode(text)
    except ValidationError:
        # Accept an object of unexpected form. The API server validates objects, but a single invalid object may not
        # stop the watch of all other objects.
        return _ANYTHING.decode(text)
    return trimmed


def select_fields(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """Return an object with only the fields that the operator reads. An object of unknown form stays unchanged."""
    try:
        trimmed: dict[str, Any] = convert(manifest, _SHAPES.get(kind, _Object))
    except ValidationError:
        return dict(manifest)
    return trimmed


def trim_object(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """Return the trimmed object in the form that the store keeps."""
    trimmed = select_fields(kind, manifest)
    if kind is CONFIG_MAP and "data" in trimmed:
        trimmed["data"] = hash_texts(trimmed["data"])
    if kind in _READ_ANNOTATIONS and isinstance(annotations := trimmed["metadata"].get("annotations"), Mapping):
        kept = {name: value for name, value in annotations.items() if name.startswith(_READ_ANNOTATIONS[kind])}
        if kind is RESOURCE and len(kept) < len(annotations):
            # Keep a hash of the other annotations, because a change of any annotation of a resource triggers a
            # reconcile.
            kept[_OTHERS] = short_hash(annotations)
        trimmed["metadata"] = {**trimmed["metadata"], "annotations": kept}
    return {intern(name): _copy_function(kind, name)(value, _DEEPEST) for name, value in trimmed.items()}


def _copy_function(kind: Kind, name: str) -> Callable[[Any, int], Any]:
    # Specs and child objects are similar in different resources, so share their values. Statuses differ, so share only
    # their strings.
    return _PARTS.deduplicate if name == "spec" or kind in _ALIKE else _intern_strings


def equal_except_version(one: Manifest, other: Manifest) -> bool:
    """Return True if two trimmed versions of an object are equal except for their resource versions."""
    return _drop_version(one) == _drop_version(other)


def _drop_version(manifest: Manifest) -> dict[str, Any]:
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "resourceVersion"}
    return {**manifest, "metadata": metadata}


def _intern_strings(value: Any, max_depth: int) -> Any:
    """Return a copy with interned strings, because JSON decoding creates new strings for each object."""
    if type(value) is str:
        return intern(value)
    if max_depth and type(value) is dict:
        return {intern(name): _intern_strings(item, max_depth - 1) for name, item in value.items()}
    if max_depth and type(value) is list:
        return [_intern_strings(item, max_depth - 1) for item in value]
    return value


class SharedParts:
    """A cache for parts of trimmed objects, which stores equal parts only once. Callers must not modify the parts."""

    def __init__(self, max_parts: int, max_bytes: int) -> None:
        """Create a cache of at most `max_parts` parts and `max_bytes` bytes. A full cache is cleared."""
        self._max_parts, self._max_bytes = max_parts, max_bytes
        self._parts: dict[tuple[Any, ...], Any] = {}
        self._bytes = 0

    def deduplicate(self, value: Any, max_depth: int) -> Any:
        """Return an equal value whose parts are in the cache."""
        if type(value) is str:
            return intern(value)
        if max_depth and type(value) is dict:
            copy: Any = {intern(name): self.deduplicate(item, max_depth - 1) for name, item in value.items()}
            # The key contains the identities of the values. These identities stay valid, because the cache also
            # contains the values.
            key = (dict, *copy, *map(_identity, copy.values()))
        elif max_depth and type(value) is list:
            copy = [self.deduplicate(item, max_depth - 1) for item in value]
            key = (list, *map(_identity, copy))
        else:
            return value
        if (shared_part := self._parts.get(key)) is not None:
            return shared_part
        # Clear the cache when it is full. The cache may contain parts of objects that the store has dropped.
        items = copy.values() if type(copy) is dict else copy
        self._bytes += 2 * getsizeof(copy) + sum(getsizeof(item) for item in items if type(item) is str)
        if len(self._parts) >= self._max_parts or self._bytes > self._max_bytes:
            self._parts.clear()
            self._bytes = 0
        self._parts[key] = copy
        return copy


def _identity(value: Any) -> Any:
    # Include the type, because `True == 1`. Exclude floats, because `0.0 == -0.0`.
    return (type(value), value) if isinstance(value, int | None) else id(value)


_PARTS = SharedParts(2048, 16 * 2**20)
