"""The kept revisions as rows and as one document: pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_status
from gaudi_operator.core.rollout.revision import Revision

NONE = "<none>"
HEADER = ("REVISION", "NAME", "PHASE", "CREATED", "FAILED")


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
