"""The commands pause, resume and restart of `kubectl gaudi rollout`.

The commands are at the top. The pure functions below the commands return patches. If a patch is not possible, these
functions raise ResourceCommandError.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import typer

from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, SelectedResource, with_resource
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest

MergePatch = dict[str, Any]


@with_resource
def pause(selection: SelectedResource) -> None:
    """Pause the rollout. Ready pods keep serving."""
    selection.cluster.patch_inference(selection.name, pause_patch(selection.cluster.fetch_inference(selection.name)))
    typer.echo(f"{selection.full_name} paused")


@with_resource
def resume(selection: SelectedResource) -> None:
    """Resume a paused rollout."""
    selection.cluster.patch_inference(selection.name, resume_patch(selection.cluster.fetch_inference(selection.name)))
    typer.echo(f"{selection.full_name} resumed")


@with_resource
def restart(selection: SelectedResource) -> None:
    """Replace all pods within the limits of spec.rollout, or retry a failed revision."""
    resource, now = selection.cluster.fetch_inference(selection.name), datetime.now(UTC).isoformat()
    selection.cluster.patch_inference(selection.name, restart_patch(resource, now))
    typer.echo(f"{selection.full_name} restarted")


def pause_patch(resource: Manifest) -> MergePatch:
    """Return the patch that pauses the rollout. Raises ResourceCommandError if the rollout is already paused."""
    if _rollout_settings(resource).get("paused"):
        raise ResourceCommandError(f"{_resource_name(resource)} is already paused")
    return {"spec": {"rollout": {"paused": True}}}


def resume_patch(resource: Manifest) -> MergePatch:
    """Return the patch that resumes the rollout. Raises ResourceCommandError if the rollout is not paused."""
    if not _rollout_settings(resource).get("paused"):
        raise ResourceCommandError(f"{_resource_name(resource)} is not paused")
    return {"spec": {"rollout": {"paused": None}}}


def restart_patch(resource: Manifest, now: str) -> MergePatch:
    """Return the patch that restarts the pods. Raises ResourceCommandError if the rollout is paused."""
    refuse_if_paused(resource, "restart")
    return {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: now}}}


def refuse_if_paused(resource: Manifest, verb: str) -> None:
    """Raise ResourceCommandError if the rollout is paused, because a restart or an undo would then have no effect."""
    if _rollout_settings(resource).get("paused"):
        name = _resource_name(resource)
        raise ResourceCommandError(
            f"{name} is paused, so {verb} would have no effect. Run kubectl gaudi rollout resume {name} first"
        )


def _rollout_settings(resource: Manifest) -> Mapping[str, Any]:
    return resource["spec"].get("rollout") or {}


def _resource_name(resource: Manifest) -> str:
    return str(resource["metadata"]["name"])
