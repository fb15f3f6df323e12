"""Objects with resource versions and a log of their changes, as an API server keeps them; in memory, for one namespace.

Objects are never changed in place: every version stays what it was, so that a stale view is just an older version.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.world.server_side_apply import Object, Owned, applied

Name = tuple[str, str]


def _nobody() -> None:
    """Nobody hears of changes."""


class Invalid(Exception):
    """The API server does not take this object."""


@dataclass
class Api:
    """`log` tells by kind of every change: (whether the object is gone, its version); `changed` hears of it."""

    objects: dict[Name, Object] = field(default_factory=dict)
    log: dict[str, list[tuple[bool, Object]]] = field(default_factory=lambda: defaultdict(list))
    version: int = 0
    changed: Callable[[], None] = _nobody
    _owned: dict[str, Owned] = field(default_factory=dict)

    def kind(self, kind: str) -> list[Object]:
        """All objects of a kind, by name."""
        return [each for (its, _), each in sorted(self.objects.items()) if its == kind]

    def get(self, kind: str, name: str) -> Object | None:
        """One object, None where there is none."""
        return self.objects.get((kind, name))

    def put(self, manifest: Mapping[str, Any], **metadata: Any) -> Object:
        """Create or replace an object, with further `metadata`; returns the new version, the known one without news."""
        known = self.objects.get((manifest["kind"], manifest["metadata"]["name"]))
        uid = known["metadata"]["uid"] if known else f"uid-{self.version + 1}"
        fresh = {**manifest, "metadata": {"uid": uid, **manifest["metadata"], **metadata}}
        if known:
            fresh["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            if fresh == known:
                return known
        self.version += 1
        fresh["metadata"]["resourceVersion"] = str(self.version)
        return self._tell(False, fresh)

    def apply(self, manifest: Mapping[str, Any], manager: str, **metadata: Any) -> Object:
        """Server-side apply, by force: what others own stays. `metadata` is that of a new object."""
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
        """An object is gone."""
        gone = self.objects.pop((kind, name))
        self._owned.pop(gone["metadata"]["uid"], None)
        self.version += 1
        self._tell(True, {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def _tell(self, gone: bool, manifest: Object) -> Object:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if not gone:
            self.objects[kind, name] = manifest
        self.log[kind].append((gone, manifest))
        self.changed()
        return manifest


def with_condition(
    conditions: list[Object], kind: str, true: bool, now: str, reason: str = "", message: str = ""
) -> list[Object]:
    """The conditions of a status with one set; its transition time moves only when its status does."""
    known = next((each for each in conditions if each["type"] == kind), {})
    status = "True" if true else "False"
    since = known["lastTransitionTime"] if known.get("status") == status else now
    fresh = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    if known:
        return [fresh if each is known else each for each in conditions]
    return [*conditions, fresh]


def condition(manifest: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of an object's status; empty where there is none."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def owner(manifest: Mapping[str, Any]) -> str | None:
    """UID of an object's controller."""
    return next((str(each["uid"]) for each in manifest["metadata"].get("ownerReferences") or ()), None)


def ending(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in manifest["metadata"]


def counts(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is one of its ReplicaSet's: neither ending nor ended."""
    return not ending(pod) and (pod.get("status") or {}).get("phase") != "Failed"
