"""ControllerRevisions as stored objects: numbers, order, annotations of failures, and malformed objects."""

import json

import pytest

from gaudi_operator.core.names import FAILURE_ANNOTATION, FORMER_NUMBERS_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.rollout.controller_revision import (
    MAX_MESSAGE,
    failure_annotations,
    history_annotations,
    read_failure,
    stored_revisions,
)
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.errors import Problem

STALLED = Problem("WarmupStalled", "No progress in pod a.")


def stored(annotations: dict[str, str]) -> Revision:
    """Return the revision of a ControllerRevision with these annotations."""
    (found,) = stored_revisions([{"metadata": {"labels": {REVISION_LABEL: "a"}, "annotations": annotations}}])
    return found


@pytest.mark.parametrize(("former", "kept"), [((1, 4), (1, 4)), (tuple(range(15)), tuple(range(5, 15)))])
def test_newest_former_numbers_round_trip(former: tuple[int, ...], kept: tuple[int, ...]) -> None:
    assert stored(history_annotations(Revision("a", 20, {}, {}, "", former_numbers=former))).former_numbers == kept


def test_other_texts_are_not_former_numbers() -> None:
    assert stored({FORMER_NUMBERS_ANNOTATION: "1,x,-2,٣, 4,5"}).former_numbers == (1, 5)


def test_revision_without_a_history_has_no_annotation() -> None:
    assert history_annotations(Revision("a", 1, {}, {}, "")) == {}


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
