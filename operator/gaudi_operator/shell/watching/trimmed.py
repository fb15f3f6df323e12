"""What is kept of an object: what somebody reads of it, with equal texts once.

A thousand resources are ten thousand objects, and most of what the API server says of each is for others: defaults of
containers, counts of replicas, who wrote which field. It would take memory, and each change of it would wake a
reconcile that has nothing to do.
"""

from collections.abc import Callable, Mapping
from sys import getsizeof, intern
from typing import Any, TypedDict

from msgspec import Raw, ValidationError, convert
from msgspec.json import Decoder

from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, GROUP_SIZE_ANNOTATION
from gaudi_operator.core.notation import hash_texts, short_hash
from gaudi_operator.core.observed import Manifest
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
    """What somebody reads of any object. Who reads more adds it here, and where a kind says more, in a shape of it."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: Any
    data: Any
    immutable: Any
    revision: Any
    automountServiceAccountToken: Any


class _Whole(_Object, total=False):
    status: Any


class _Conditions(TypedDict, total=False):
    conditions: Any


class _Workload(_Object, total=False):
    """Its refusals; how many pods there are, the pods say."""

    status: _Conditions


class _Scaling(_Conditions, total=False):
    desiredReplicas: Any


class _Autoscaler(_Object, total=False):
    status: _Scaling


class _Container(TypedDict, total=False):
    name: Any
    ports: Any


class _InitContainer(TypedDict, total=False):
    name: Any
    restartPolicy: Any


class _Gate(TypedDict, total=False):
    name: Any


class _PodSpec(TypedDict, total=False):
    """Which containers a pod has, where they answer, and what holds it; the rest is in the template of its revision."""

    containers: list[_Container]
    initContainers: list[_InitContainer]
    schedulingGates: list[_Gate]


class _Pod(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: _PodSpec
    status: Any


class _Name(TypedDict, total=False):
    """Who made an object, and who owns it."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata


_SHAPES: Mapping[Kind, Any] = {
    RESOURCE: _Whole,
    CLASS: _Whole,
    POD: _Pod,
    REPLICA_SET: _Workload,
    LEADER_WORKER_SET: _Workload,
    STATEFUL_SET: _Name,
    AUTOSCALER: _Autoscaler,
}
"""Of the status of other children nothing is read."""

_ANYTHING = Decoder(dict[str, Any])
_READERS = {kind: Decoder(_SHAPES.get(kind, _Object)) for kind in KINDS.values()}

_ALIKE = frozenset({CONTROLLER_REVISION, REPLICA_SET, LEADER_WORKER_SET})
"""Kinds that hold pod templates and what they were made from, the largest things we keep: those of one resource, and
of all resources, are alike but for names, in all that they say.
"""

_READ_ANNOTATIONS: Mapping[Kind, tuple[str, ...]] = {
    RESOURCE: (f"{GROUP}/",),
    POD: (f"{GROUP}/", GROUP_SIZE_ANNOTATION, DELETION_COST_ANNOTATION),
}
"""Beginnings of the annotations that the operator reads, of kinds to which others may add up to 256 KiB of them."""

_OTHERS = "digest"
"""Stands for the annotations of a resource that the operator does not read, so that a change of them shows."""

_DEEPEST = 40
"""Levels of what is copied. Ours have fewer; what a stranger nests deeper stays as it is."""


def from_json(kind: Kind, text: bytes | Raw) -> dict[str, Any]:
    """What is kept of an object in JSON; the rest becomes nothing at all: that is a tenth of the time. ValueError where
    it is none.
    """
    try:
        found: dict[str, Any] = _READERS[kind].decode(text)
    except ValidationError:
        # No API server lets in what is none of its kind: one object must not stop the watch of all others.
        return _ANYTHING.decode(text)
    return found


def shaped(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """What somebody reads of an object; one that is none of its kind stays as it is."""
    try:
        found: dict[str, Any] = convert(manifest, _SHAPES.get(kind, _Object))
    except ValidationError:
        return dict(manifest)
    return found


def trimmed(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """The object as it is kept."""
    kept = shaped(kind, manifest)
    if kind is CONFIG_MAP and "data" in kept:
        kept["data"] = hash_texts(kept["data"])
    if kind in _READ_ANNOTATIONS and isinstance(annotations := kept["metadata"].get("annotations"), Mapping):
        read = {name: each for name, each in annotations.items() if name.startswith(_READ_ANNOTATIONS[kind])}
        if kind is RESOURCE and len(read) < len(annotations):
            # Any annotation of a resource triggers a reconcile, also one that the operator does not read.
            read[_OTHERS] = short_hash(annotations)
        kept["metadata"] = {**kept["metadata"], "annotations": read}
    return {intern(name): _copied(kind, name)(each, _DEEPEST) for name, each in kept.items()}


def _copied(kind: Kind, name: str) -> Callable[[Any, int], Any]:
    # A team's specs are alike, and those of their children are so much the more; what is said of each is not.
    return _PARTS.once if name == "spec" or kind in _ALIKE else _with_texts_once


def same_but_for_version(one: Manifest, other: Manifest) -> bool:
    """Return True if two trimmed versions of an object differ in nothing but the version."""
    return _unversioned(one) == _unversioned(other)


def _unversioned(manifest: Manifest) -> dict[str, Any]:
    metadata = {name: each for name, each in manifest["metadata"].items() if name != "resourceVersion"}
    return {**manifest, "metadata": metadata}


def _with_texts_once(value: Any, deepest: int) -> Any:
    """A copy whose texts are those that are in use already, for JSON gives each object its own."""
    if type(value) is str:
        return intern(value)
    if deepest and type(value) is dict:
        return {intern(name): _with_texts_once(each, deepest - 1) for name, each in value.items()}
    if deepest and type(value) is list:
        return [_with_texts_once(each, deepest - 1) for each in value]
    return value


class Parts:
    """Parts of recent objects, each kept once. Callers do not change what is kept."""

    def __init__(self, most: int, most_bytes: int) -> None:
        """Keep at most so many parts and bytes; start again with none when there would be more."""
        self._most, self._most_bytes = most, most_bytes
        self._known: dict[tuple[Any, ...], Any] = {}
        self._bytes = 0

    def once(self, value: Any, deepest: int) -> Any:
        """An equal value whose parts are those that are known already."""
        if type(value) is str:
            return intern(value)
        if deepest and type(value) is dict:
            made: Any = {intern(name): self.once(each, deepest - 1) for name, each in value.items()}
            # By the identity of what is in it, for that is kept once too, and lives as long as this.
            key = (dict, *made, *map(_identity, made.values()))
        elif deepest and type(value) is list:
            made = [self.once(each, deepest - 1) for each in value]
            key = (list, *map(_identity, made))
        else:
            return value
        if (known := self._known.get(key)) is not None:
            return known
        # What is here may be of objects that the store has not kept, or keeps no more.
        inside = made.values() if type(made) is dict else made
        self._bytes += 2 * getsizeof(made) + sum(getsizeof(each) for each in inside if type(each) is str)
        if len(self._known) >= self._most or self._bytes > self._most_bytes:
            self._known.clear()
            self._bytes = 0
        self._known[key] = made
        return made


def _identity(value: Any) -> Any:
    # By type too, for True equals 1. A fraction is not worth it: 0.0 equals -0.0.
    return (type(value), value) if isinstance(value, int | None) else id(value)


_PARTS = Parts(2048, 16 * 2**20)
