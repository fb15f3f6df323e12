"""Resources with a status and their kept revisions, as the commands of kubectl-gaudi read them."""

from typing import Any

from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.names import CONTAINER, RESTARTED_AT_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.rollout.controller_revision import failure_annotations, read_controller_revisions
from gaudi_operator.core.rollout.revision import Revision, revision_inputs, serialize_revision_inputs
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.resources import resource

FAILURE = Problem("WarmupStalled", "No progress in pod tiny-b-x.")
NEWER: dict[str, Any] = {"engine": {"maxNumSeqs": 8}}


def shown(*conditions: tuple[str, bool, str, str], restarted: str | None = None, **status: Any) -> Object:
    """Return a resource of two replicas with revision `a` and these conditions (type, holds, reason, message)."""
    manifest = resource(generation=2, annotations=restarted_at(restarted), replicas=2)
    said = [
        {"type": kind, "status": str(holds), "reason": reason, "message": text, "lastTransitionTime": "2026-08-01"}
        for kind, holds, reason, text in conditions
    ]
    known = {"observedGeneration": 2, "conditions": said, "revision": {"current": "a"}, "readyReplicas": 1}
    return {**manifest, "status": {**known, **status}}


def served_by(*names: str, **spec: Any) -> Object:
    """Return a resource whose status lists these revisions as served."""
    rows = [{"name": name, "number": 1, "phase": "Kept", "served": True} for name in names]
    return {**resource(**spec), "status": {"revisions": rows}}


def revision(
    name: str, number: int, failure: Problem | None = None, restarted: str | None = None, **spec: Any
) -> Revision:
    """Return a kept revision of the default test resource with these changes."""
    inputs = serialize_revision_inputs(
        revision_inputs(read_inference(resource(annotations=restarted_at(restarted), **spec)))
    )
    manifest = {
        "metadata": {
            "labels": {REVISION_LABEL: name},
            "annotations": failure_annotations(failure),
            "creationTimestamp": "2026-08-01T12:00:00Z",
        },
        "revision": number,
        "data": {
            "inputs": inputs,
            "template": {"spec": {"containers": [{"name": CONTAINER, "image": "runtime:1"}]}},
            "config": "{}",
        },
    }
    return read_controller_revisions([manifest])[0]


def restarted_at(moment: str | None) -> dict[str, str]:
    return {RESTARTED_AT_ANNOTATION: moment} if moment else {}
