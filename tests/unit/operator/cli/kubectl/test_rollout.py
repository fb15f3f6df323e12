"""The kept revisions as rows and as a document, which one undo goes back to, and the patches of all commands."""

import pytest

from gaudi_operator.cli.kubectl.asking import Refused
from gaudi_operator.cli.kubectl.rollout import (
    HEADER,
    aligned_lines,
    details,
    find_revision,
    guarded_undo_patch,
    pause_patch,
    previous_revision,
    restart_patch,
    resume_patch,
    rows,
    undo_target,
    why_not_back,
)
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rollout.revision import Revision
from tests.unit.operator.cli.kubectl.kept import FAILURE, NEWER, revision, shown
from tests.unit.operator.core.resources import resource

FIRST = revision("a", 1)
SECOND = revision("b", 2, **NEWER)


def test_revision_is_named_by_its_number() -> None:
    assert find_revision((SECOND, FIRST), "1") is FIRST


def test_name_of_digits_goes_before_a_number() -> None:
    digits = revision("1", 7)
    assert find_revision((digits, SECOND, FIRST), "1") is digits


def test_revision_not_kept_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refused, match=r"revision 9 is not kept: choose one of 1 \(a\), 2 \(b\)"):
        find_revision((SECOND, FIRST), "9")


def test_undo_goes_back_to_the_revision_before_the_desired_one() -> None:
    assert previous_revision(resource(**NEWER), (SECOND, FIRST)) is FIRST


@pytest.mark.parametrize(("asked", "found"), [(None, FIRST), ("0", FIRST), ("2", SECOND)])
def test_undo_to_0_is_undo_without_a_revision(asked: str | None, found: Revision) -> None:
    assert undo_target(resource(**NEWER), (SECOND, FIRST), asked) is found


def test_undo_of_an_undo_goes_forth_again() -> None:
    again = revision("a", 3)
    assert previous_revision(resource(), (again, SECOND)) is SECOND


def test_undo_after_a_rollback_takes_what_runs_in_its_stead() -> None:
    runs, failed = revision("a", 3), revision("b", 2, FAILURE, **NEWER)
    assert previous_revision(resource(**NEWER), (runs, failed)) is runs


def test_undo_of_a_pin_goes_back_to_the_one_before() -> None:
    pinned = resource(**NEWER, rollout={"revision": "0123456789"})
    assert previous_revision(pinned, (revision("0123456789", 3), SECOND)) is SECOND


def test_undo_passes_over_revisions_that_failed() -> None:
    failed = revision("b", 2, FAILURE, engine={"maxNumSeqs": 9})
    assert previous_revision(resource(**NEWER), (revision("c", 3, **NEWER), failed, FIRST)) is FIRST


def test_undo_without_an_earlier_revision_is_refused() -> None:
    with pytest.raises(Refused, match="no earlier revision"):
        previous_revision(resource(), (FIRST,))


def test_failed_revision_is_warned_of() -> None:
    assert why_not_back(revision("b", 2, FAILURE)) == (
        "revision b failed before (WarmupStalled): No progress in pod tiny-b-x"
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
    assert list(aligned_lines([("REVISION", "NAME"), ("1", "a"), ("12", "bc")])) == [
        "REVISION   NAME",
        "1          a",
        "12         bc",
    ]


def test_details_say_image_inputs_and_why_it_failed() -> None:
    shown_ = details(STATUS, STORED[0])
    assert shown_["failed"] == "WarmupStalled: No progress in pod tiny-b-x."
    assert shown_["image"] == "runtime:1"
    assert shown_["inputs"]["engine"]["maxNumSeqs"] == 8


def test_details_of_a_good_revision_say_nothing_of_failure() -> None:
    assert "failed" not in details(STATUS, STORED[1])


PAUSED = resource(rollout={"paused": True})


def test_pause_sets_the_field() -> None:
    assert pause_patch(resource()) == {"spec": {"rollout": {"paused": True}}}


def test_pause_of_what_is_paused_is_refused() -> None:
    with pytest.raises(Refused, match="tiny is already paused"):
        pause_patch(PAUSED)


def test_resume_takes_the_field_away() -> None:
    assert resume_patch(PAUSED) == {"spec": {"rollout": {"paused": None}}}


def test_resume_of_what_is_not_paused_is_refused() -> None:
    with pytest.raises(Refused, match="tiny is not paused"):
        resume_patch(resource())


def test_restart_sets_the_annotation() -> None:
    assert restart_patch(resource(), "now") == {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: "now"}}}


def test_restart_while_paused_is_refused_with_the_command_that_helps() -> None:
    with pytest.raises(Refused, match="kubectl gaudi rollout resume tiny"):
        restart_patch(PAUSED, "now")


def test_restart_of_a_pinned_revision_is_refused_as_without_effect() -> None:
    with pytest.raises(Refused, match="runs revision 0123456789"):
        restart_patch(resource(rollout={"revision": "0123456789"}), "now")


def test_undo_of_what_is_paused_is_refused() -> None:
    with pytest.raises(Refused, match="undo would have no effect"):
        guarded_undo_patch(PAUSED, revision("b", 2, **NEWER))


def test_undo_holds_only_for_the_spec_that_was_looked_at() -> None:
    test, *changes = guarded_undo_patch(resource(generation=4), revision("b", 2, **NEWER))
    assert test == {"op": "test", "path": "/metadata/generation", "value": 4}
    assert [change["path"] for change in changes] == ["/spec/engine"]


def test_undo_to_what_the_spec_asks_for_is_no_patch() -> None:
    assert guarded_undo_patch(resource(**NEWER), revision("b", 2, **NEWER)) == []
