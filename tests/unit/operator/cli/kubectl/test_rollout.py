"""`kubectl gaudi rollout history`, `pause`, `resume` and `restart`: rows, documents and patches."""

import pytest

from gaudi_operator.cli.kubectl.rollout import (
    HEADER,
    aligned_history_lines,
    pause_patch,
    restart_patch,
    resume_patch,
    rollout_history_rows,
    rollout_revision_details,
)
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rollout.revision import Revision
from tests.unit.operator.cli.kubectl.kept import FAILURE, NEWER, revision, shown
from tests.unit.operator.core.resources import resource

FIRST = revision("a", 1)
SECOND = revision("b", 2, **NEWER)


STORED = (revision("b", 12, FAILURE, **NEWER), revision("a", 2), revision("0", 1))
STATUS = shown(
    revisions=[
        {"name": "b", "number": 12, "phase": "RolledBack"},
        {"name": "a", "number": 2, "phase": "Serving", "served": True},
    ]
)


def test_rows_are_oldest_first_with_the_phase_of_the_status() -> None:
    assert list(rollout_history_rows(STATUS, STORED)) == [
        HEADER,
        ("1", "0", "<none>", "<none>", "2026-08-01T12:00:00Z", "<none>"),
        ("2", "a", "Serving", "yes", "2026-08-01T12:00:00Z", "<none>"),
        ("12", "b", "RolledBack", "no", "2026-08-01T12:00:00Z", "WarmupStalled"),
    ]


def test_history_without_revisions_has_only_a_header() -> None:
    assert list(rollout_history_rows(STATUS, ())) == [HEADER]


def test_columns_are_aligned() -> None:
    assert list(aligned_history_lines([("REVISION", "NAME"), ("1", "a"), ("12", "bc")])) == [
        "REVISION   NAME",
        "1          a",
        "12         bc",
    ]


def test_details_have_image_inputs_and_failure() -> None:
    shown_ = rollout_revision_details(STATUS, STORED[0])
    assert shown_["failed"] == "WarmupStalled: No progress in pod tiny-b-x."
    assert shown_["image"] == "runtime:1"
    assert shown_["inputs"]["engine"]["maxNumSeqs"] == 8


@pytest.mark.parametrize(("kept", "served"), [*zip(STORED, (False, True, "<none>"), strict=True)])
def test_details_report_whether_the_revision_served(kept: Revision, served: object) -> None:
    assert rollout_revision_details(STATUS, kept)["served"] == served


def test_details_of_a_good_revision_have_no_failure() -> None:
    assert "failed" not in rollout_revision_details(STATUS, STORED[1])


PAUSED = resource(rollout={"paused": True})


def test_pause_sets_the_field() -> None:
    assert pause_patch(resource()) == {"spec": {"rollout": {"paused": True}}}


def test_pause_of_a_paused_rollout_is_refused() -> None:
    with pytest.raises(ResourceCommandError, match="tiny is already paused"):
        pause_patch(PAUSED)


def test_resume_removes_the_field() -> None:
    assert resume_patch(PAUSED) == {"spec": {"rollout": {"paused": None}}}


def test_resume_of_an_active_rollout_is_refused() -> None:
    with pytest.raises(ResourceCommandError, match="tiny is not paused"):
        resume_patch(resource())


def test_restart_sets_the_annotation() -> None:
    assert restart_patch(resource(), "now") == {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: "now"}}}


def test_restart_while_paused_is_refused_with_the_resume_command() -> None:
    with pytest.raises(ResourceCommandError, match="kubectl gaudi rollout resume tiny"):
        restart_patch(PAUSED, "now")
