"""Which kept revision is meant, and whether one may go back to it: pure."""

from collections.abc import Sequence

from gaudi_operator.cli.kubectl.refusal import Refused
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_inference
from gaudi_operator.core.rollout.revision import Revision, revision_inputs, same_inputs

UNSAID = (None, "0")
"""A revision that is left out; kubectl takes 0 for that."""


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
    """What undo without a revision goes back to: the one last to run, but for the wished one and those that failed.

    `stored` is newest first. So a revision that was rolled back is undone to the one that runs in its stead.
    Raises Refused when there is none, SpecUnreadable when another release wrote the spec.
    """
    wished = _wished(resource, stored)
    for revision in stored:
        if revision is not wished and revision.failure is None:
            return revision
    raise Refused("there is no earlier revision to go back to that has not failed")


def why_not_back(revision: Revision) -> str | None:
    """The sentence about a revision that failed before; None for any other."""
    failure = revision.failure
    if failure is None:
        return None
    return f"revision {revision.name} failed before ({failure.reason}): {failure.message.rstrip('.')}"


def _wished(resource: Manifest, stored: Sequence[Revision]) -> Revision | None:
    inference = read_inference(resource)
    inputs, pinned = revision_inputs(inference), inference.spec.rollout.revision
    if pinned:
        return next((each for each in stored if each.name == pinned), None)
    return next((each for each in stored if same_inputs(each.inputs, inputs)), None)


def _list(stored: Sequence[Revision]) -> str:
    return ", ".join(f"{each.number} ({each.name})" for each in reversed(stored)) or "none"
