"""Why a revision was given up: kept on its ControllerRevision, so that no operator tries it again unasked.

docs/revisions.md, When a revision fails.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from gaudi_operator.core.canonical import canonical_json
from gaudi_operator.core.names import FAILURE_ANNOTATION

MAX_REASON, MAX_MESSAGE = 64, 1024


@dataclass(frozen=True)
class Failure:
    """A stable reason, and a sentence with the evidence: the pod, its phase and bucket, its last words."""

    reason: str
    message: str


def failure_annotations(failure: Failure | None) -> dict[str, str]:
    """The annotations of a ControllerRevision that say it; none without a failure."""
    if failure is None:
        return {}
    said = Failure(failure.reason[:MAX_REASON], failure.message[:MAX_MESSAGE])
    return {FAILURE_ANNOTATION: canonical_json(asdict(said))}


def read_failure(annotations: Mapping[str, str]) -> Failure | None:
    """The failure that stands there; one that a person has written in another form counts as it is."""
    text = annotations.get(FAILURE_ANNOTATION)
    if text is None:
        return None
    try:
        said = json.loads(text)
        return Failure(str(said["reason"])[:MAX_REASON], str(said["message"])[:MAX_MESSAGE])
    except (ValueError, TypeError, KeyError):
        return Failure("MarkedFailed", text[:MAX_MESSAGE])
