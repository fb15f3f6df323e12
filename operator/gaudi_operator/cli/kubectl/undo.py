"""`kubectl gaudi rollout undo`: change the spec back to the inputs of a stored revision.

The command is at the top. The pure functions below the command choose the revision to restore and return the patch. If
another tool owns the spec, change the manifest back instead (docs/how-to/revisions.md, Control a rollout).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from gaudi_operator.api.base import dump_api_model
from gaudi_operator.cli.kubectl.rollout import MergePatch, refuse_if_paused
from gaudi_operator.cli.kubectl.rollout_history import UNSAID, find_rollout_revision, read_rollout_history
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, SelectedResource, with_resource
from gaudi_operator.core.inference import read_inference, read_inference_status
from gaudi_operator.core.names import FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.revision import Revision, read_revision_inputs, revision_inputs

_RESTARTED = "restartedAt"
TRY_AGAIN: MergePatch = {"metadata": {"annotations": {FAILURE_ANNOTATION: None}}}
"""The patch of a ControllerRevision that removes its failure, so that the operator tries the revision again."""

ToRevision = Annotated[
    str | None,
    typer.Option(help="Number or name of the revision. Defaults to the newest other revision that served."),
]
Force = Annotated[bool, typer.Option("--force", help="Go back even if the revision has failed before.")]


@with_resource
def undo(selection: SelectedResource, to_revision: ToRevision = None, force: Force = False) -> None:
    """Change the spec back to an earlier revision. Replicas, thresholds and rollout settings do not change."""
    resource, revisions = selection.cluster.fetch_inference(selection.name), read_rollout_history(selection)
    target_revision = undo_target(resource, revisions, to_revision)
    patch = guarded_undo_patch(resource, target_revision)
    if failure_message := failure_before_undo(target_revision):
        if not force:
            raise ResourceCommandError(f"{failure_message}. To retry it, use --force")
        typer.echo(f"warning: {failure_message}. It is retried.", err=True)
    # Remove the failure mark of the revision before the spec is patched. Otherwise the operator would treat the
    # revision as failed and abandon it.
    if target_revision.failure:
        selection.cluster.patch_revision(selection.name, target_revision.name, TRY_AGAIN)
    if patch:
        selection.cluster.patch_inference(selection.name, patch)
    if patch or target_revision.failure:
        typer.echo(f"{selection.full_name} rolled back to revision {target_revision.number} ({target_revision.name})")
    else:
        typer.echo(
            f"{selection.full_name} skipped rollback (the spec already requests revision {target_revision.number}, "
            f"{target_revision.name})"
        )


def undo_target(resource: Manifest, revisions: Sequence[Revision], number_or_name: str | None) -> Revision:
    """Return the revision that `kubectl gaudi rollout undo` restores.

    Raises the same errors as find_rollout_revision() and revision_before_undo().
    """
    if number_or_name in UNSAID:
        return revision_before_undo(resource, revisions)
    return find_rollout_revision(revisions, str(number_or_name))


def revision_before_undo(resource: Manifest, revisions: Sequence[Revision]) -> Revision:
    """Return the revision that undo restores without --to-revision.

    This is the newest revision that has served, has not failed and is not the desired revision. `revisions` is sorted,
    newest first. After an automatic rollback, undo therefore restores the revision that is running.

    Raises ResourceCommandError if there is no such revision, and SpecUnreadable if another release wrote an unreadable
    spec.
    """
    desired_revision, served_names = (
        _desired_revision(resource, revisions),
        read_inference_status(resource).served_revisions,
    )
    candidates = [revision for revision in revisions if revision is not desired_revision]
    for revision in candidates:
        if revision.name in served_names and revision.failure is None:
            return revision
    raise ResourceCommandError(_no_previous_message(candidates))


def _no_previous_message(candidates: Sequence[Revision]) -> str:
    if not candidates:
        return "there is no earlier revision to restore"
    reasons = ", ".join(
        f"revision {revision.number} ({revision.name}) {_why_not_selected(revision)}"
        for revision in reversed(candidates)
    )
    return f"no earlier revision served without a failure: {reasons}. To restore one of them, use --to-revision"


def _why_not_selected(revision: Revision) -> str:
    return f"failed ({revision.failure.reason})" if revision.failure else "is not recorded as served"


def failure_before_undo(revision: Revision) -> str | None:
    """Return the earlier failure of a revision as text; None without a failure. After a failure, undo needs --force."""
    failure = revision.failure
    if failure is None:
        return None
    return f"revision {revision.name} failed before ({failure.reason}): {failure.message.rstrip('.')}"


def _desired_revision(resource: Manifest, revisions: Sequence[Revision]) -> Revision | None:
    inference = read_inference(resource)
    return next((revision for revision in revisions if revision.matches_spec(inference)), None)


def guarded_undo_patch(resource: Manifest, revision: Revision) -> list[dict[str, Any]]:
    """Return the patch that restores `revision`; an empty list if the spec already matches.

    The patch tests the generation, so that the API server rejects the patch if the spec has changed since it was read.
    Raises ResourceCommandError if the rollout is paused, and SpecUnreadable if another release wrote an unreadable spec
    or revision.
    """
    refuse_if_paused(resource, "undo")
    patch = undo_patch(resource, revision.inputs)
    generation_test = {"op": "test", "path": "/metadata/generation", "value": resource["metadata"]["generation"]}
    return [generation_test, *patch] if patch else []


def undo_patch(resource: Manifest, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that changes the spec of `resource` to the `inputs` of a stored revision.

    The patch writes only inputs that differ. Replicas, thresholds and rollout settings do not change. The patch omits
    defaults, because rules of the API may depend on whether a field is set.
    Raises SpecUnreadable if this release cannot read the spec or the inputs, because another release wrote them.
    """
    current_inputs = dump_api_model(revision_inputs(read_inference(resource)))
    restored_inputs = dump_api_model(read_revision_inputs(inputs))
    return [
        *_spec_operations(resource["spec"], current_inputs, restored_inputs),
        *_annotation_operations(resource, restored_inputs),
    ]


def _spec_operations(
    spec: Mapping[str, Any], current_inputs: Mapping[str, Any], restored_inputs: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    names = [name for name in dict.fromkeys([*current_inputs, *restored_inputs]) if name != _RESTARTED]
    changed_names = {name for name in names if current_inputs.get(name) != restored_inputs.get(name)}
    for name in sorted(changed_names):
        yield from _field_operations(f"/spec/{name}", spec.get(name), restored_inputs.get(name))


def _annotation_operations(resource: Manifest, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    annotations = resource["metadata"].get("annotations") or {}
    other_annotations = {key: value for key, value in annotations.items() if key != RESTARTED_AT_ANNOTATION}
    restart_annotation = {RESTARTED_AT_ANNOTATION: inputs[_RESTARTED]} if inputs.get(_RESTARTED) else {}
    yield from _field_operations(
        "/metadata/annotations", annotations or None, {**other_annotations, **restart_annotation} or None
    )


def _field_operations(path: str, current_value: object, new_value: object) -> Iterator[dict[str, Any]]:
    if current_value == new_value:
        return
    yield {"op": "remove", "path": path} if new_value is None else {"op": "add", "path": path, "value": new_value}
