"""Why a revision was given up: kept on its ControllerRevision, so that no operator tries it again unasked.

docs/revisions.md, When a revision fails.
"""

import json
from collections.abc import Mapping

from gaudi_operator.core.canonical import canonical_json
from gaudi_operator.core.names import FAILURE_ANNOTATION
from gaudi_runtime.problem import Problem

MAX_REASON, MAX_MESSAGE = 64, 1024


def failure_annotations(failure: Problem | None) -> dict[str, str]:
    """The annotations of a ControllerRevision that say it; none without a failure."""
    if failure is None:
        return {}
    said = Problem(failure.reason[:MAX_REASON], failure.message[:MAX_MESSAGE])
    return {FAILURE_ANNOTATION: canonical_json({"reason": said.reason, "message": said.message})}


def read_failure(annotations: Mapping[str, str]) -> Problem | None:
    """The failure that stands there; one that a person has written in another form counts as it is."""
    text = annotations.get(FAILURE_ANNOTATION)
    if text is None:
        return None
    try:
        said = json.loads(text)
        return Problem(str(said["reason"])[:MAX_REASON], str(said["message"])[:MAX_MESSAGE])
    except (ValueError, TypeError, KeyError):
        return Problem("MarkedFailed", text[:MAX_MESSAGE])
