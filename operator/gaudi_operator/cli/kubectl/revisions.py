"""The kept revisions: shown as rows or as one document, and which one undo goes back to. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaudi_operator.cli.kubectl.asking import Refused
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_inference, read_status
from gaudi_operator.core.rollout.revision import Revision, revision_inputs, same_inputs

NONE = "<none>"
HEADER = ("REVISION", "NAME", "PHASE", "CREATED", "FAILED")
UNSAID = (None, "0")
"""A revision that is left out; kubectl takes 0 for that."""


def rows(resource: Manifest, stored: Sequence[Revision]) -> Iterator[Sequence[str]]:
    """The header, then a row per kept revision, oldest first as `kubectl rollout history` has them."""
    phases = _phases(resource)
    yield HEADER
    for each in sorted(stored, key=lambda revision: revision.number):
        failed = each.failure.reason if each.failure else NONE
        yield str(each.number), each.name, phases.get(each.name, NONE), each.created or NONE, failed


def details(resource: Manifest, revision: Revision) -> dict[str, Any]:
    """What is kept of one revision, without the rendering that follows from it."""
    failure = revision.failure
    return {
        "revision": revision.number,
        "name": revision.name,
        "phase": _phases(resource).get(revision.name, NONE),
        "created": revision.created or NONE,
        **({"failed": f"{failure.reason}: {failure.message}"} if failure else {}),
        "image": _image(revision.template),
        "inputs": revision.inputs,
    }


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of columns that stand below each other, three spaces apart."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _phases(resource: Manifest) -> dict[str, str]:
    return {each.name: each.phase.value for each in read_status(resource).revisions}


def _image(template: Mapping[str, Any]) -> str:
    containers = template.get("spec", {}).get("containers", ())
    return next((str(each["image"]) for each in containers if each["name"] == CONTAINER), NONE)


def chosen(resource: Manifest, stored: Sequence[Revision], asked: str | None) -> Revision:
    """What undo goes back to. Raises as named() and earlier() do."""
    return earlier(resource, stored) if asked in UNSAID else named(stored, str(asked))


def named(stored: Sequence[Revision], asked: str) -> Revision:
    """The revision of a name or a number. Raises Refused when none is kept."""
    for key in (lambda each: each.name, lambda each: str(each.number)):
        for revision in stored:
            if key(revision) == asked:
                return revision
    raise Refused(f"revision {asked} is not kept: choose one of {_list(stored)}")


def earlier(resource: Manifest, stored: Sequence[Revision]) -> Revision:
    """What undo without a revision goes back to: the one last to run, but for the desired one and those that failed.

    `stored` is newest first. So a revision that was rolled back is undone to the one that runs in its stead.
    Raises Refused when there is none, SpecUnreadable when another release wrote the spec.
    """
    desired = _desired(resource, stored)
    for revision in stored:
        if revision is not desired and revision.failure is None:
            return revision
    raise Refused("there is no earlier revision to go back to that has not failed")


def why_not_back(revision: Revision) -> str | None:
    """The sentence about a revision that failed before; None for any other."""
    failure = revision.failure
    if failure is None:
        return None
    return f"revision {revision.name} failed before ({failure.reason}): {failure.message.rstrip('.')}"


def _desired(resource: Manifest, stored: Sequence[Revision]) -> Revision | None:
    inference = read_inference(resource)
    inputs, pinned = revision_inputs(inference), inference.spec.rollout.revision
    if pinned:
        return next((each for each in stored if each.name == pinned), None)
    return next((each for each in stored if same_inputs(each.inputs, inputs)), None)


def _list(stored: Sequence[Revision]) -> str:
    return ", ".join(f"{each.number} ({each.name})" for each in reversed(stored)) or "none"
