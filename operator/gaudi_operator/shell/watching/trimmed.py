"""What is kept of an object: what somebody reads of it, with equal texts once.

A thousand resources are ten thousand objects, and most of what the API server says of each is for others: defaults of
containers, counts of replicas, who wrote which field. It would take memory, and each change of it would wake a
reconcile that has nothing to do.
"""

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any

from gaudi_operator.core.observed import Manifest
from gaudi_operator.shell.kinds import (
    AUTOSCALER,
    CLASS,
    CONTROLLER_REVISION,
    LEADER_WORKER_SET,
    POD,
    REPLICA_SET,
    RESOURCE,
    Kind,
)

_METADATA = frozenset({"managedFields", "generateName", "selfLink"})
"""Nothing reads these."""

_STATUS: Mapping[Kind, tuple[str, ...]] = {
    REPLICA_SET: ("conditions",),
    LEADER_WORKER_SET: ("conditions",),
    AUTOSCALER: ("conditions", "desiredReplicas"),
}
"""What is read of the status of children; of others nothing is. That of pods and of our own kinds is kept whole."""


_ALIKE = frozenset({CONTROLLER_REVISION, REPLICA_SET, LEADER_WORKER_SET})
"""Kinds that hold pod templates and what they were made from, the largest things we keep: those of one resource, and
of all resources, are alike but for names, in all that they say.
"""

_DEEPEST = 40
"""Levels of what is copied. Ours have fewer; what a stranger nests deeper stays as it is."""


def trimmed(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """The object as it is kept."""
    kept = {name: each for name, each in manifest.items() if name not in ("metadata", "spec", "status")}
    kept["metadata"] = {name: each for name, each in manifest["metadata"].items() if name not in _METADATA}
    if "spec" in manifest:
        kept["spec"] = _pod_spec(manifest["spec"]) if kind is POD else manifest["spec"]
    if "status" in manifest and (status := _status(kind, manifest["status"])):
        kept["status"] = status
    return {intern(name): _copied(kind, name)(each, _DEEPEST) for name, each in kept.items()}


def _copied(kind: Kind, name: str) -> Callable[[Any, int], Any]:
    # A team's specs are alike, and those of their children are so much the more; what is said of each is not.
    return _PARTS.once if name == "spec" or kind in _ALIKE else _with_texts_once


def same_but_for_version(one: Manifest, other: Manifest) -> bool:
    """Whether two trimmed versions of an object say the same."""
    return all(one.get(name) == other.get(name) for name in ("spec", "status", "data")) and _unversioned(
        one
    ) == _unversioned(other)


def _unversioned(manifest: Manifest) -> dict[str, Any]:
    rest = {name: each for name, each in manifest.items() if name not in ("spec", "status", "data", "metadata")}
    return {**rest, **{name: each for name, each in manifest["metadata"].items() if name != "resourceVersion"}}


def _pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Which containers a pod has, and where they answer; the rest stands in the template of its revision."""
    found = {
        "containers": [_only(each, "name", "ports") for each in spec.get("containers") or ()],
        "initContainers": [_only(each, "name", "restartPolicy") for each in spec.get("initContainers") or ()],
    }
    return {name: each for name, each in found.items() if each}


def _status(kind: Kind, status: Mapping[str, Any]) -> Mapping[str, Any]:
    return status if kind in (RESOURCE, CLASS, POD) else _only(status, *_STATUS.get(kind, ()))


def _only(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value[name] for name in names if name in value}


def _with_texts_once(value: Any, deepest: int) -> Any:
    """A copy whose texts are those that are in use already, for JSON gives each object its own."""
    if type(value) is str:
        return intern(value)
    if deepest and type(value) is dict:
        return {intern(name): _with_texts_once(each, deepest - 1) for name, each in value.items()}
    if deepest and type(value) is list:
        return [_with_texts_once(each, deepest - 1) for each in value]
    return value


class _Parts:
    """Parts of objects that were met lately, each kept once. Nobody changes what is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[Any, ...], Any] = {}

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
        if len(self._known) >= self._most:
            self._known.clear()
        return self._known.setdefault(key, made)


def _identity(value: Any) -> Any:
    # By type too, for True equals 1. A fraction is not worth it: 0.0 equals -0.0.
    return (type(value), value) if isinstance(value, int | None) else id(value)


_PARTS = _Parts(2048)
