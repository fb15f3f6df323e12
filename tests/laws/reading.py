"""The conversion of objects from an API server to a moment of a history."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gaudi_operator.core.names import (
    DELETION_COST_ANNOTATION,
    DESIRED_ANNOTATION,
    FAILURE_ANNOTATION,
    GATE,
    REMOVED_FIRST,
    REVISION_LABEL,
)
from tests.laws.history import Child, Moment, Pod, Runtime

Manifest = Mapping[str, Any]
_INSTANCE = re.compile(r"instance (\S+),")


def moment(
    at: float,
    resource: Manifest,
    objects: Iterable[Manifest],
    endpoints: Iterable[str],
    runtimes: Mapping[str, Runtime],
    warm: Iterable[str],
    hot: Iterable[str] = (),
) -> Moment:
    """Return the moment in which `objects` are the children and pods of the resource."""
    alive = [each for each in objects if each["kind"] == "Pod" or "deletionTimestamp" not in each["metadata"]]
    pods = (_pod(each) for each in alive if each["kind"] == "Pod")
    revisions = (each for each in alive if each["kind"] == "ControllerRevision")
    replica_sets = [each for each in alive if each["kind"] == "ReplicaSet"]
    return Moment(
        at=at,
        resource=resource,
        pods={pod.uid: pod for pod in pods},
        endpoints=frozenset(endpoints),
        replica_sets={_revision(each): _replicas(each) for each in replica_sets},
        delayed=sum(_delayed(each) for each in replica_sets),
        failed=frozenset(_revision(each) for each in revisions if FAILURE_ANNOTATION in _annotations(each)),
        children=tuple(Child(e["kind"], e["metadata"]["name"], _owner(e)) for e in alive if e["kind"] != "Pod"),
        runtimes=runtimes,
        warm=frozenset(warm),
        hot=frozenset(hot),
    )


def _pod(manifest: Manifest) -> Pod:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    gate = conditions.get(GATE, {})
    named = _INSTANCE.search(gate.get("message") or "")
    ended = status.get("phase") in ("Succeeded", "Failed")
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=_revision(manifest),
        counts="deletionTimestamp" not in metadata and not ended,
        ready=conditions.get("Ready", {}).get("status") == "True",
        gate=gate.get("status") == "True",
        judged=named.group(1) if named else None,
        failed=status.get("phase") == "Failed",
        removed_first=_annotations(manifest).get(DELETION_COST_ANNOTATION) == str(REMOVED_FIRST),
    )


def _replicas(replica_set: Manifest) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _delayed(replica_set: Manifest) -> int:
    full = int(_annotations(replica_set).get(DESIRED_ANNOTATION, 0))
    return max(0, full - _replicas(replica_set))


def _revision(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("labels", {}).get(REVISION_LABEL, ""))


def _annotations(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("annotations") or {}


def _owner(manifest: Manifest) -> str | None:
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), None)
