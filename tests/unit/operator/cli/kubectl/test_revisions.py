"""The kept revisions as rows and as a document, and which one undo goes back to."""

import pytest

from gaudi_operator.cli.kubectl.asking import Refused
from gaudi_operator.cli.kubectl.revisions import HEADER, chosen, columns, details, earlier, named, rows, why_not_back
from gaudi_operator.core.rollout.revision import Revision
from tests.unit.operator.cli.kubectl.kept import FAILURE, NEWER, revision, shown
from tests.unit.operator.core.resources import resource

FIRST = revision("a", 1)
SECOND = revision("b", 2, **NEWER)


def test_revision_is_named_by_its_number() -> None:
    assert named((SECOND, FIRST), "1") is FIRST


def test_name_of_digits_goes_before_a_number() -> None:
    digits = revision("1", 7)
    assert named((digits, SECOND, FIRST), "1") is digits


def test_revision_that_is_not_kept_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refused, match=r"revision 9 is not kept: choose one of 1 \(a\), 2 \(b\)"):
        named((SECOND, FIRST), "9")


def test_undo_goes_back_to_the_revision_before_the_desired_one() -> None:
    assert earlier(resource(**NEWER), (SECOND, FIRST)) is FIRST


@pytest.mark.parametrize(("asked", "found"), [(None, FIRST), ("0", FIRST), ("2", SECOND)])
def test_undo_to_0_is_undo_without_a_revision(asked: str | None, found: Revision) -> None:
    assert chosen(resource(**NEWER), (SECOND, FIRST), asked) is found


def test_undo_of_an_undo_goes_forth_again() -> None:
    again = revision("a", 3)
    assert earlier(resource(), (again, SECOND)) is SECOND


def test_undo_of_what_was_rolled_back_takes_what_runs_in_its_stead() -> None:
    runs, failed = revision("a", 3), revision("b", 2, FAILURE, **NEWER)
    assert earlier(resource(**NEWER), (runs, failed)) is runs


def test_undo_of_a_pin_goes_back_to_what_ran_before_it() -> None:
    pinned = resource(**NEWER, rollout={"revision": "0123456789"})
    assert earlier(pinned, (revision("0123456789", 3), SECOND)) is SECOND


def test_undo_passes_over_revisions_that_failed() -> None:
    failed = revision("b", 2, FAILURE, engine={"maxNumSeqs": 9})
    assert earlier(resource(**NEWER), (revision("c", 3, **NEWER), failed, FIRST)) is FIRST


def test_undo_without_an_earlier_revision_is_refused() -> None:
    with pytest.raises(Refused, match="no earlier revision"):
        earlier(resource(), (FIRST,))


def test_failed_revision_is_warned_of() -> None:
    assert why_not_back(revision("b", 2, FAILURE)) == (
        "revision b failed before (WarmupStalled): Nothing has moved in pod tiny-b-x"
    )
    assert why_not_back(FIRST) is None


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
