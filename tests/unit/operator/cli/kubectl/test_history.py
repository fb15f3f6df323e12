"""The kept revisions as rows and as a document."""

from gaudi_operator.cli.kubectl.revisions import HEADER, columns, details, rows
from tests.unit.operator.cli.kubectl.kept import FAILURE, NEWER, revision, shown

STORED = (revision("b", 12, FAILURE, **NEWER), revision("a", 2))
STATUS = shown(revisions=[{"name": "b", "number": 12, "phase": "RolledBack"}])


def test_rows_are_oldest_first_with_the_phase_of_the_status() -> None:
    assert list(rows(STATUS, STORED)) == [
        HEADER,
        ("2", "a", "<none>", "2026-08-01T12:00:00Z", "<none>"),
        ("12", "b", "RolledBack", "2026-08-01T12:00:00Z", "WarmupStalled"),
    ]


def test_history_without_revisions_is_its_header() -> None:
    assert list(rows(STATUS, ())) == [HEADER]


def test_columns_stand_below_each_other() -> None:
    assert list(columns([("REVISION", "NAME"), ("1", "a"), ("12", "bc")])) == [
        "REVISION   NAME",
        "1          a",
        "12         bc",
    ]


def test_details_say_image_inputs_and_why_it_failed() -> None:
    shown_ = details(STATUS, STORED[0])
    assert shown_["failed"] == "WarmupStalled: Nothing has moved in pod tiny-b-x."
    assert shown_["image"] == "runtime:1"
    assert shown_["inputs"]["engine"]["maxNumSeqs"] == 8


def test_details_of_a_good_revision_say_nothing_of_failure() -> None:
    assert "failed" not in details(STATUS, STORED[1])
