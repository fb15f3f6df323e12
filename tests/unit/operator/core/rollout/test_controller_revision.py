"""ControllerRevisions as stored objects: numbers, order, annotations of failures, and malformed objects."""

import json
from typing import Any

import pytest

from gaudi_operator.core.names import FAILURE_ANNOTATION, FORMER_NUMBERS_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.rollout.controller_revision import (
    MAX_MESSAGE,
    controller_revision_annotations,
    failure_annotations,
    read_controller_revisions,
    read_failure,
)
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.resources import DEFAULTS, inference

STALLED = Problem("WarmupStalled", "No progress in pod a.")


def stored(annotations: dict[str, str]) -> Revision:
    """Return the revision of a ControllerRevision with these annotations."""
    (found,) = read_controller_revisions([{"metadata": {"labels": {REVISION_LABEL: "a"}, "annotations": annotations}}])
    return found


@pytest.mark.parametrize(("former", "kept"), [((1, 4), (1, 4)), (tuple(range(15)), tuple(range(5, 15)))])
def test_newest_former_numbers_round_trip(former: tuple[int, ...], kept: tuple[int, ...]) -> None:
    assert (
        stored(controller_revision_annotations(Revision("a", 20, {}, {}, "", former_numbers=former))).former_numbers
        == kept
    )


def test_invalid_former_numbers_are_ignored() -> None:
    assert stored({FORMER_NUMBERS_ANNOTATION: "1,x,-2,٣, 4,5"}).former_numbers == (1, 5)


def test_revision_without_a_history_has_no_annotation() -> None:
    assert controller_revision_annotations(Revision("a", 1, {}, {}, "")) == {}


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


OURS: dict[str, Any] = {"labels": {REVISION_LABEL: "r"}}


def kept(number: object = 1, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {**OURS, **metadata}, "revision": number, "data": {"config": "{}"}}


def test_new_revision_has_the_next_number() -> None:
    assert choose_desired_revision(inference(), read_controller_revisions([kept(7)]), DEFAULTS).number == 8


def test_newest_revision_comes_first() -> None:
    numbers = [revision.number for revision in read_controller_revisions([kept(1), kept(3), kept(2)])]
    assert numbers == [3, 2, 1]


def test_revision_without_data_is_empty() -> None:
    at = "2026-08-01T11:00:00Z"
    manifest = {"metadata": {**OURS, "creationTimestamp": at}, "revision": 1}
    assert read_controller_revisions([manifest]) == (Revision("r", 1, {}, {}, "", created_at=at, stored_data={}),)


def test_revision_without_a_number_is_the_oldest() -> None:
    manifest = kept()
    del manifest["revision"]
    assert [revision.number for revision in read_controller_revisions([manifest])] == [0]


@pytest.mark.parametrize(
    "manifest",
    [kept(labels={}), kept(labels=None), kept(-1), kept(2**62), kept(deletionTimestamp="2026-01-01T00:00:00Z")],
    ids=["no name", "no labels", "below zero", "beyond 64 bits", "being deleted"],
)
def test_malformed_data_is_not_a_revision(manifest: dict[str, Any]) -> None:
    assert read_controller_revisions([manifest]) == ()
