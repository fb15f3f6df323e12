"""`kubectl gaudi rollout history`: rows and details."""

import pytest

from gaudi_operator.cli.kubectl.rollout_history import (
    HEADER,
    aligned_history_lines,
    rollout_history_rows,
    rollout_revision_details,
)
from gaudi_operator.core.rollout.revision import Revision
from tests.unit.operator.cli.kubectl.kept import FAILURE, NEWER, revision, shown

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
