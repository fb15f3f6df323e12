"""The patches of pause, resume, restart and undo, and when there is nothing to patch: pure."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.cli.kubectl.asking import Refused
from gaudi_operator.core.names import FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.revision import Revision, undo_patch

MergePatch = dict[str, Any]
TRY_AGAIN: MergePatch = {"metadata": {"annotations": {FAILURE_ANNOTATION: None}}}
"""Of a ControllerRevision: it is tried as if it had never failed."""


def pause(resource: Manifest) -> MergePatch:
    """Hold the rollout. Raises Refused when it is held already."""
    if _rollout(resource).get("paused"):
        raise Refused(f"{_name(resource)} is already paused")
    return {"spec": {"rollout": {"paused": True}}}


def resume(resource: Manifest) -> MergePatch:
    """Let the rollout go on. Raises Refused when nothing holds it."""
    if not _rollout(resource).get("paused"):
        raise Refused(f"{_name(resource)} is not paused")
    return {"spec": {"rollout": {"paused": None}}}


def restart(resource: Manifest, now: str) -> MergePatch:
    """Ask for new pods. Raises Refused where none would come."""
    _not_paused(resource, "restart")
    if pinned := _rollout(resource).get("revision"):
        raise Refused(
            f"{_name(resource)} runs revision {pinned}, as spec.rollout.revision says, and would not be restarted: "
            "take that field away first"
        )
    return {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: now}}}


def undo(resource: Manifest, revision: Revision) -> list[dict[str, Any]]:
    """Ask for `revision` again, unless the spec has changed in between; empty when the spec asks for it already.

    Raises Refused while the rollout is paused, SpecUnreadable when another release wrote the spec or the revision.
    """
    _not_paused(resource, "undo")
    patch = undo_patch(resource, revision.inputs)
    unchanged = {"op": "test", "path": "/metadata/generation", "value": resource["metadata"]["generation"]}
    return [unchanged, *patch] if patch else []


def _not_paused(resource: Manifest, verb: str) -> None:
    if _rollout(resource).get("paused"):
        name = _name(resource)
        raise Refused(f"{name} is paused, so {verb} would move nothing: kubectl gaudi rollout resume {name} first")


def _rollout(resource: Manifest) -> Mapping[str, Any]:
    return resource["spec"].get("rollout") or {}


def _name(resource: Manifest) -> str:
    return str(resource["metadata"]["name"])
