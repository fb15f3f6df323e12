"""The objects of one namespace in memory, with resource versions and a log of changes as in an API server.

Objects are never changed in place, and every version stays available. A stale view is therefore an older version.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.world.server_side_apply import Object, Owned, applied

Name = tuple[str, str]


def _ignore() -> None:
    """Ignore changes."""


class Invalid(Exception):
    """The API server rejects this object."""


@dataclass
class Api:
    """The objects of one namespace.

    `log` contains the changes by kind as (True if the object was deleted, version of the object). `changed` is called
    after each change.
    """

    objects: dict[Name, Object] = field(default_factory=dict)
    log: dict[str, list[tuple[bool, Object]]] = field(default_factory=lambda: defaultdict(list))
    version: int = 0
    changed: Callable[[], None] = _ignore
    _owned: dict[str, Owned] = field(default_factory=dict)

    def kind(self, kind: str) -> list[Object]:
        """Return all objects of a kind, sorted by name."""
        return [each for (its, _), each in sorted(self.objects.items()) if its == kind]

    def get(self, kind: str, name: str) -> Object | None:
        """Return an object, or None if the object does not exist."""
        return self.objects.get((kind, name))

    def put(self, manifest: Mapping[str, Any], **metadata: Any) -> Object:
        """Create or replace an object with additional `metadata`.

        Return the object, or the old object if nothing changed.
        """
        known = self.objects.get((manifest["kind"], manifest["metadata"]["name"]))
        uid = known["metadata"]["uid"] if known else f"uid-{self.version + 1}"
        fresh = {**manifest, "metadata": {"uid": uid, **manifest["metadata"], **metadata}}
        if known:
            fresh["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            if fresh == known:
                return known
        self.version += 1
        fresh["metadata"]["resourceVersion"] = str(self.version)
        return self._record_change(False, fresh)

    def apply(self, manifest: Mapping[str, Any], manager: str, **metadata: Any) -> Object:
        """Apply `manifest` server-side with force.

        Fields of other managers are kept. `metadata` is added to a new object.
        """
        live = self.get(manifest["kind"], manifest["metadata"]["name"])
        owned = self._owned.get(live["metadata"]["uid"], {}) if live else {}
        fresh, owners = applied(live or {"metadata": metadata}, manifest, owned, manager)
        frozen = live and (live.get("immutable") or live["kind"] == "ControllerRevision")
        if live and frozen and live["data"] != fresh["data"]:
            raise Invalid("data: field is immutable")
        if live and "generation" in live["metadata"] and live["spec"] != fresh["spec"]:
            fresh["metadata"] = {**fresh["metadata"], "generation": live["metadata"]["generation"] + 1}
        answer = self.put(fresh)
        self._owned[answer["metadata"]["uid"]] = owners
        return answer

    def status(self, live: Object, **status: Any) -> Object:
        """Write fields of an object's status."""
        return self.put({**live, "status": {**live.get("status", {}), **status}})

    def remove(self, kind: str, name: str) -> None:
        """Remove an object."""
        gone = self.objects.pop((kind, name))
        self._owned.pop(gone["metadata"]["uid"], None)
        self.version += 1
        self._record_change(True, {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def _record_change(self, gone: bool, manifest: Object) -> Object:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if not gone:
            self.objects[kind, name] = manifest
        self.log[kind].append((gone, manifest))
        self.changed()
        return manifest


def with_condition(
    conditions: list[Object], kind: str, true: bool, now: str, reason: str = "", message: str = ""
) -> list[Object]:
    """Return the conditions with the condition `kind` set. The transition time changes only if the status changes."""
    known = next((each for each in conditions if each["type"] == kind), {})
    status = "True" if true else "False"
    since = known["lastTransitionTime"] if known.get("status") == status else now
    fresh = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    if known:
        return [fresh if each is known else each for each in conditions]
    return [*conditions, fresh]


def condition(manifest: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition of an object's status, or an empty mapping if the condition does not exist."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def owner(manifest: Mapping[str, Any]) -> str | None:
    """Return the UID of an object's controller, or None if the object has no owner."""
    return next((str(each["uid"]) for each in manifest["metadata"].get("ownerReferences") or ()), None)


def ending(manifest: Mapping[str, Any]) -> bool:
    """Return True if an object is being deleted."""
    return "deletionTimestamp" in manifest["metadata"]


def counts(pod: Mapping[str, Any]) -> bool:
    """Return True if a pod counts for its ReplicaSet. Terminating pods and failed pods do not count."""
    return not ending(pod) and (pod.get("status") or {}).get("phase") != "Failed"
