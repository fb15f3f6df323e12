"""`kubectl gaudi rollout undo`: change the spec back to the inputs of a stored revision.

The command is at the top. The pure functions below the command choose the revision to restore and return the patch. If
another tool owns the spec, so that users cannot patch the spec, set spec.rollout.revision instead
(docs/how-to/revisions.md, Control a rollout).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from gaudi_operator.api.base import dump_non_defaults
from gaudi_operator.cli.kubectl.options import CommandError, SelectedResource, with_resource
from gaudi_operator.cli.kubectl.rollout import (
    UNSAID,
    MergePatch,
    find_revision,
    read_stored_revisions,
    refuse_if_paused,
)
from gaudi_operator.core.names import FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_inference, read_status
from gaudi_operator.core.rollout.inputs import read_inputs, revision_inputs
from gaudi_operator.core.rollout.revision import Revision

_RESTARTED = "restartedAt"
TRY_AGAIN: MergePatch = {"metadata": {"annotations": {FAILURE_ANNOTATION: None}}}
"""The patch of a ControllerRevision that removes its failure, so that the operator tries the revision again."""

ToRevision = Annotated[
    str | None,
    typer.Option(help="Number or name of the revision. Defaults to the newest other revision that served."),
]
Force = Annotated[bool, typer.Option("--force", help="Go back even if the revision has failed before.")]


@with_resource
def undo(asked: SelectedResource, to_revision: ToRevision = None, force: Force = False) -> None:
    """Change the spec back to an earlier revision. Replicas, thresholds and rollout settings do not change."""
    resource, stored = asked.cluster.fetch_inference_with_texts(asked.name), read_stored_revisions(asked)
    to = undo_target(resource, stored, to_revision)
    patch = guarded_undo_patch(resource, to)
    if failed := earlier_failure(to):
        if not force:
            raise CommandError(f"{failed}. To retry it, use --force")
        typer.echo(f"warning: {failed}. It is retried.", err=True)
    # Remove the failure mark of the revision before the spec is patched. Otherwise the operator would treat the
    # revision as failed and abandon it.
    if to.failure:
        asked.cluster.patch_revision(asked.name, to.name, TRY_AGAIN)
    if patch:
        asked.cluster.patch_inference(asked.name, patch)
    if patch or to.failure:
        typer.echo(f"{asked.full_name} rolled back to revision {to.number} ({to.name})")
    else:
        typer.echo(f"{asked.full_name} skipped rollback (the spec already requests revision {to.number}, {to.name})")


def undo_target(resource: Manifest, stored: Sequence[Revision], asked: str | None) -> Revision:
    """Return the revision that `kubectl gaudi rollout undo` restores.

    Raises the same errors as find_revision() and previous_revision().
    """
    return previous_revision(resource, stored) if asked in UNSAID else find_revision(stored, str(asked))


def previous_revision(resource: Manifest, stored: Sequence[Revision]) -> Revision:
    """Return the revision that undo restores without --to-revision.

    This is the newest revision that has served, has not failed and is not the desired revision. `stored` is sorted,
    newest first. After an automatic rollback, undo therefore restores the revision that is running.

    Raises Refused if there is no such revision, and SpecUnreadable if another release wrote an unreadable spec.
    """
    desired, served = _desired_revision(resource, stored), read_status(resource).served_revisions
    others = [each for each in stored if each is not desired]
    for revision in others:
        if revision.name in served and revision.failure is None:
            return revision
    raise CommandError(_no_previous_message(others))


def _no_previous_message(others: Sequence[Revision]) -> str:
    if not others:
        return "there is no earlier revision to restore"
    found = ", ".join(f"revision {each.number} ({each.name}) {_why_not_selected(each)}" for each in reversed(others))
    return f"no earlier revision served without a failure: {found}. To restore one of them, use --to-revision"


def _why_not_selected(revision: Revision) -> str:
    return f"failed ({revision.failure.reason})" if revision.failure else "is not recorded as served"


def earlier_failure(revision: Revision) -> str | None:
    """Return the earlier failure of a revision as text; None without a failure. After a failure, undo needs --force."""
    failure = revision.failure
    if failure is None:
        return None
    return f"revision {revision.name} failed before ({failure.reason}): {failure.message.rstrip('.')}"


def _desired_revision(resource: Manifest, stored: Sequence[Revision]) -> Revision | None:
    inference = read_inference(resource)
    pinned = inference.spec.rollout.revision
    if pinned:
        return next((each for each in stored if each.name == pinned), None)
    return next((each for each in stored if each.matches_spec(inference)), None)


def guarded_undo_patch(resource: Manifest, revision: Revision) -> list[dict[str, Any]]:
    """Return the patch that restores `revision`; an empty list if the spec already matches.

    The patch tests the generation, so that the API server rejects the patch if the spec has changed since it was read.
    Raises Refused if the rollout is paused, and SpecUnreadable if another release wrote an unreadable spec or revision.
    """
    refuse_if_paused(resource, "undo")
    patch = undo_patch(resource, revision.inputs)
    unchanged = {"op": "test", "path": "/metadata/generation", "value": resource["metadata"]["generation"]}
    return [unchanged, *patch] if patch else []


def undo_patch(resource: Manifest, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that changes the spec of `resource` to the `inputs` of a stored revision.

    The patch writes only inputs that differ, and removes spec.rollout.revision. Replicas, thresholds and rollout
    settings do not change. The patch omits defaults, because rules of the API may depend on whether a field is set.
    Raises SpecUnreadable if this release cannot read the spec or the inputs, because another release wrote them.
    """
    now, then = dump_non_defaults(revision_inputs(read_inference(resource))), dump_non_defaults(read_inputs(inputs))
    return [
        *_spec_operations(resource["spec"], now, then),
        *_annotation_operations(resource, then),
    ]


def _spec_operations(
    spec: Mapping[str, Any], now: Mapping[str, Any], then: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    names = [name for name in dict.fromkeys([*now, *then]) if name != _RESTARTED]
    differ = {name for name in names if now.get(name) != then.get(name)}
    for name in sorted(differ):
        yield from _field_operations(f"/spec/{name}", spec.get(name), then.get(name))
    if "revision" in spec.get("rollout", {}):
        yield {"op": "remove", "path": "/spec/rollout/revision"}


def _annotation_operations(resource: Manifest, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    was = resource["metadata"].get("annotations") or {}
    others = {key: value for key, value in was.items() if key != RESTARTED_AT_ANNOTATION}
    stored = {RESTARTED_AT_ANNOTATION: inputs[_RESTARTED]} if inputs.get(_RESTARTED) else {}
    yield from _field_operations("/metadata/annotations", was or None, {**others, **stored} or None)


def _field_operations(path: str, was: object, desired: object) -> Iterator[dict[str, Any]]:
    if was == desired:
        return
    yield {"op": "remove", "path": path} if desired is None else {"op": "add", "path": path, "value": desired}
