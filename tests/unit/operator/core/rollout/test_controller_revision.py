import json

import pytest

from gaudi_operator.core.names import FAILURE_ANNOTATION
from gaudi_operator.core.rollout.controller_revision import MAX_MESSAGE, failure_annotations, read_failure
from gaudi_runtime.errors import Problem

STALLED = Problem("WarmupStalled", "No progress in pod a.")


def test_failure_annotation_round_trips() -> None:
    assert read_failure(failure_annotations(STALLED)) == STALLED


def test_revision_without_a_failure_has_no_annotation() -> None:
    assert failure_annotations(None) == {}
    assert read_failure({}) is None


def test_long_evidence_is_truncated() -> None:
    (text,) = failure_annotations(Problem("A", "x" * 5000)).values()
    assert len(json.loads(text)["message"]) == MAX_MESSAGE


@pytest.mark.parametrize("text", ["bad since Friday", "[]", "{}", '"text"'])
def test_manually_written_annotation_is_a_failure(text: str) -> None:
    assert read_failure({FAILURE_ANNOTATION: text}) == Problem("MarkedFailed", text)
