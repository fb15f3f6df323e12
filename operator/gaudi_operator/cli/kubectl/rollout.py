"""`kubectl gaudi rollout` except status: history, undo, pause, resume and restart.

The commands come first. The pure functions below them format the stored revisions, choose the target of undo, and
return patches or refuse.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from gaudi_operator.cli.kubectl.asking import Refused, SelectedResource, with_resource
from gaudi_operator.cli.kubectl.undo import undo_patch
from gaudi_operator.core.names import CONTAINER, FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_inference, read_status
from gaudi_operator.core.rollout.controller_revision import stored_revisions
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.text import on_one_line

NONE = "<none>"
HEADER = ("REVISION", "NAME", "PHASE", "CREATED", "FAILED")
UNSAID = (None, "0")
"""The values of an unset revision option. kubectl uses 0."""

MergePatch = dict[str, Any]
TRY_AGAIN: MergePatch = {"metadata": {"annotations": {FAILURE_ANNOTATION: None}}}
"""The patch of a ControllerRevision that removes its failure, so that the operator tries the revision again."""

RevisionOption = Annotated[
    str | None, typer.Option("--revision", help="Number or name of the revision whose inputs are shown.")
]
ToRevision = Annotated[
    str | None, typer.Option("--to-revision", help="Number or name of the revision. Defaults to the previous one.")
]
Force = Annotated[bool, typer.Option("--force", help="Go back even if the revision has failed before.")]


@with_resource
def history(asked: SelectedResource, revision: RevisionOption = None) -> None:
    """Show the stored revisions, or the inputs of one of them."""
    resource, stored = asked.cluster.inference_with_texts(asked.name), _stored(asked)
    if revision in UNSAID:
        typer.echo(asked.full_name)
        for line in aligned_lines(list(rows(resource, stored))):
            typer.echo(on_one_line(line))
        return
    import yaml

    shown = find_revision(stored, str(revision))
    typer.echo(f"{asked.full_name} with revision #{shown.number}")
    typer.echo(yaml.safe_dump(details(resource, shown), sort_keys=False, width=120), nl=False)


@with_resource
def undo(asked: SelectedResource, to_revision: ToRevision = None, force: Force = False) -> None:
    """Change the spec back to an earlier revision. Replicas, thresholds and rollout settings stay."""
    resource, stored = asked.cluster.inference_with_texts(asked.name), _stored(asked)
    to = undo_target(resource, stored, to_revision)
    patch = guarded_undo_patch(resource, to)
    if failed := why_not_back(to):
        if not force:
            raise Refused(f"{failed}. To retry it, use --force")
        typer.echo(f"warning: {failed}. It is retried.", err=True)
    # Clear the failure first, because the operator would give up a revision that is marked as failed.
    if to.failure:
        asked.cluster.patch_revision(asked.name, to.name, TRY_AGAIN)
    if patch:
        asked.cluster.patch(asked.name, patch)
    if patch or to.failure:
        typer.echo(f"{asked.full_name} rolled back to revision {to.number} ({to.name})")
    else:
        typer.echo(f"{asked.full_name} skipped rollback (the spec already asks for revision {to.number}, {to.name})")


@with_resource
def pause(asked: SelectedResource) -> None:
    """Pause the rollout. Pods that serve keep serving."""
    asked.cluster.patch(asked.name, pause_patch(asked.cluster.inference(asked.name)))
    typer.echo(f"{asked.full_name} paused")


@with_resource
def resume(asked: SelectedResource) -> None:
    """Resume a paused rollout."""
    asked.cluster.patch(asked.name, resume_patch(asked.cluster.inference(asked.name)))
    typer.echo(f"{asked.full_name} resumed")


@with_resource
def restart(asked: SelectedResource) -> None:
    """Replace all pods within the limits of spec.rollout, or retry a failed revision."""
    now = datetime.now(UTC).isoformat()
    asked.cluster.patch(asked.name, restart_patch(asked.cluster.inference(asked.name), now))
    typer.echo(f"{asked.full_name} restarted")


def _stored(asked: SelectedResource) -> tuple[Revision, ...]:
    return stored_revisions(asked.cluster.revisions(asked.name))


def rows(resource: Manifest, stored: Sequence[Revision]) -> Iterator[Sequence[str]]:
    """Yield the header, then a row per stored revision, oldest first as in `kubectl rollout history`."""
    phases = _phases(resource)
    yield HEADER
    for each in sorted(stored, key=lambda revision: revision.number):
        failed = each.failure.reason if each.failure else NONE
        yield str(each.number), each.name, phases.get(each.name, NONE), each.created or NONE, failed


def details(resource: Manifest, revision: Revision) -> dict[str, Any]:
    """Return the stored data of one revision without its pod template."""
    failure = revision.failure
    return {
        "revision": revision.number,
        "name": revision.name,
        "phase": _phases(resource).get(revision.name, NONE),
        "created": revision.created or NONE,
        **({"failed": f"{failure.reason}: {failure.message}"} if failure else {}),
        "image": _image(revision.template),
        "inputs": {name: value for name, value in revision.inputs.items() if name != "version"},
    }


def aligned_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows as lines whose columns are aligned, three spaces apart."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _phases(resource: Manifest) -> dict[str, str]:
    return {each.name: each.phase.value for each in read_status(resource).revisions}


def _image(template: Mapping[str, Any]) -> str:
    containers = template.get("spec", {}).get("containers", ())
    return next((str(each["image"]) for each in containers if each["name"] == CONTAINER), NONE)


def undo_target(resource: Manifest, stored: Sequence[Revision], asked: str | None) -> Revision:
    """Return the revision that undo restores. Raises the errors of find_revision() and previous_revision()."""
    return previous_revision(resource, stored) if asked in UNSAID else find_revision(stored, str(asked))


def find_revision(stored: Sequence[Revision], asked: str) -> Revision:
    """Return the revision with a name or a number. Raises Refused if it is not stored."""
    for key in (lambda each: each.name, lambda each: str(each.number)):
        for revision in stored:
            if key(revision) == asked:
                return revision
    kept = ", ".join(f"{each.number} ({each.name})" for each in reversed(stored)) or "none"
    raise Refused(f"revision {asked} is not kept: choose one of {kept}")


def previous_revision(resource: Manifest, stored: Sequence[Revision]) -> Revision:
    """Return the newest revision that has not failed and is not the desired revision.

    `stored` is newest first. After a rollback, undo thus restores the revision that runs.

    Raises Refused if there is no such revision, SpecUnreadable if another release wrote an unreadable spec.
    """
    desired = _desired(resource, stored)
    for revision in stored:
        if revision is not desired and revision.failure is None:
            return revision
    raise Refused("there is no earlier revision to go back to that has not failed")


def why_not_back(revision: Revision) -> str | None:
    """Return a sentence about the failure of a revision; None if the revision has not failed."""
    failure = revision.failure
    if failure is None:
        return None
    return f"revision {revision.name} failed before ({failure.reason}): {failure.message.rstrip('.')}"


def _desired(resource: Manifest, stored: Sequence[Revision]) -> Revision | None:
    inference = read_inference(resource)
    pinned = inference.spec.rollout.revision
    if pinned:
        return next((each for each in stored if each.name == pinned), None)
    return next((each for each in stored if each.matches_spec(inference)), None)


def pause_patch(resource: Manifest) -> MergePatch:
    """Return the patch that pauses the rollout. Raises Refused if the rollout is already paused."""
    if _rollout(resource).get("paused"):
        raise Refused(f"{_name(resource)} is already paused")
    return {"spec": {"rollout": {"paused": True}}}


def resume_patch(resource: Manifest) -> MergePatch:
    """Return the patch that resumes the rollout. Raises Refused if the rollout is not paused."""
    if not _rollout(resource).get("paused"):
        raise Refused(f"{_name(resource)} is not paused")
    return {"spec": {"rollout": {"paused": None}}}


def restart_patch(resource: Manifest, now: str) -> MergePatch:
    """Return the patch that restarts the pods. Raises Refused if no pod would be restarted."""
    _not_paused(resource, "restart")
    if pinned := _rollout(resource).get("revision"):
        raise Refused(
            f"{_name(resource)} runs revision {pinned} because spec.rollout.revision is set, and would not be "
            "restarted: remove that field first"
        )
    return {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: now}}}


def guarded_undo_patch(resource: Manifest, revision: Revision) -> list[dict[str, Any]]:
    """Return the patch that restores `revision`, guarded by the generation; empty if the spec already matches.

    Raises Refused if the rollout is paused, SpecUnreadable if another release wrote an unreadable spec or revision.
    """
    _not_paused(resource, "undo")
    patch = undo_patch(resource, revision.inputs)
    unchanged = {"op": "test", "path": "/metadata/generation", "value": resource["metadata"]["generation"]}
    return [unchanged, *patch] if patch else []


def _not_paused(resource: Manifest, verb: str) -> None:
    if _rollout(resource).get("paused"):
        name = _name(resource)
        raise Refused(
            f"{name} is paused, so {verb} would have no effect: run kubectl gaudi rollout resume {name} first"
        )


def _rollout(resource: Manifest) -> Mapping[str, Any]:
    return resource["spec"].get("rollout") or {}


def _name(resource: Manifest) -> str:
    return str(resource["metadata"]["name"])
