"""The command `kubectl gaudi rollout history`, and the stored revisions that rollout commands select."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from gaudi_operator.api.v1alpha1.status import RevisionStatus
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, SelectedResource, with_resource
from gaudi_operator.core.inference import read_inference_status
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.controller_revision import read_controller_revisions
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.text import make_one_line

NONE = "<none>"
HEADER = ("REVISION", "NAME", "PHASE", "SERVED", "CREATED", "FAILED")
UNSAID = (None, "0")
"""The values of an unset revision option. kubectl uses 0."""

RevisionOption = Annotated[
    str | None, typer.Option("--revision", help="Number or name of the revision whose inputs are shown.")
]


@with_resource
def rollout_history(selection: SelectedResource, revision: RevisionOption = None) -> None:
    """Show the stored revisions, or the inputs of one revision."""
    resource, revisions = selection.cluster.fetch_inference(selection.name), read_rollout_history(selection)
    if revision in UNSAID:
        typer.echo(selection.full_name)
        for line in aligned_history_lines(list(rollout_history_rows(resource, revisions))):
            typer.echo(make_one_line(line))
        return
    import yaml

    stored_revision = find_rollout_revision(revisions, str(revision))
    typer.echo(f"{selection.full_name} with revision #{stored_revision.number}")
    typer.echo(
        yaml.safe_dump(rollout_revision_details(resource, stored_revision), sort_keys=False, width=120), nl=False
    )


def read_rollout_history(selection: SelectedResource) -> tuple[Revision, ...]:
    """Return the stored revisions of a resource, newest first."""
    return read_controller_revisions(selection.cluster.list_revisions(selection.name))


def rollout_history_rows(resource: Manifest, revisions: Sequence[Revision]) -> Iterator[Sequence[str]]:
    """Yield the rows of the rollout history: the header, then a row per stored revision, oldest first."""
    status_by_name = _revisions_by_name(resource)
    yield HEADER
    for revision in sorted(revisions, key=lambda revision: revision.number):
        reason = revision.failure.reason if revision.failure else NONE
        status = status_by_name.get(revision.name)
        phase, served = (status.phase.value, "yes" if status.served else "no") if status else (NONE, NONE)
        yield str(revision.number), revision.name, phase, served, revision.created_at or NONE, reason


def rollout_revision_details(resource: Manifest, revision: Revision) -> dict[str, Any]:
    """Return the details of a stored revision for `kubectl gaudi rollout history --revision`."""
    failure, status = revision.failure, _revisions_by_name(resource).get(revision.name)
    return {
        "revision": revision.number,
        "name": revision.name,
        "phase": status.phase.value if status else NONE,
        "served": status.served if status else NONE,
        "created": revision.created_at or NONE,
        **({"failed": f"{failure.reason}: {failure.message}"} if failure else {}),
        "image": _container_image(revision.template),
        "inputs": {name: value for name, value in revision.inputs.items() if name != "version"},
    }


def aligned_history_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of the rollout history as lines with aligned columns, three spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _revisions_by_name(resource: Manifest) -> dict[str, RevisionStatus]:
    """Return the revisions in the status by name. The status omits the oldest revisions of a long history."""
    return {revision.name: revision for revision in read_inference_status(resource).revisions}


def _container_image(template: Mapping[str, Any]) -> str:
    containers = template.get("spec", {}).get("containers", ())
    return next((str(container["image"]) for container in containers if container["name"] == CONTAINER), NONE)


def find_rollout_revision(revisions: Sequence[Revision], number_or_name: str) -> Revision:
    """Return the revision that a rollout command selects by name or number (--revision, --to-revision).

    Raises ResourceCommandError if the revision is not stored, or now has another number.
    """
    for key in (lambda candidate: candidate.name, lambda candidate: str(candidate.number)):
        for revision in revisions:
            if key(revision) == number_or_name:
                return revision
    for revision in revisions:
        if number_or_name in map(str, revision.former_numbers):
            message = f"revision {number_or_name} has run a second time and is now revision {revision.number}"
            raise ResourceCommandError(
                f"{message}. Use {revision.number}, or the name {revision.name}, which never changes"
            )
    choices = ", ".join(f"{candidate.number} ({candidate.name})" for candidate in reversed(revisions)) or "none"
    raise ResourceCommandError(f"revision {number_or_name} is not kept: choose one of {choices}")
