"""The patches of pause, resume, restart and undo."""

import pytest

from gaudi_operator.cli.kubectl import patches
from gaudi_operator.cli.kubectl.asking import Refused
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from tests.unit.operator.cli.kubectl.kept import NEWER, revision
from tests.unit.operator.core.resources import resource

PAUSED = resource(rollout={"paused": True})


def test_pause_sets_the_field() -> None:
    assert patches.pause(resource()) == {"spec": {"rollout": {"paused": True}}}


def test_pause_of_what_is_paused_is_refused() -> None:
    with pytest.raises(Refused, match="tiny is already paused"):
        patches.pause(PAUSED)


def test_resume_takes_the_field_away() -> None:
    assert patches.resume(PAUSED) == {"spec": {"rollout": {"paused": None}}}


def test_resume_of_what_is_not_paused_is_refused() -> None:
    with pytest.raises(Refused, match="tiny is not paused"):
        patches.resume(resource())


def test_restart_sets_the_annotation() -> None:
    assert patches.restart(resource(), "now") == {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: "now"}}}


def test_restart_of_what_is_paused_is_refused_with_the_command_that_helps() -> None:
    with pytest.raises(Refused, match="kubectl gaudi rollout resume tiny"):
        patches.restart(PAUSED, "now")


def test_restart_of_a_pinned_revision_is_refused_for_nothing_would_come_of_it() -> None:
    with pytest.raises(Refused, match="runs revision 0123456789"):
        patches.restart(resource(rollout={"revision": "0123456789"}), "now")


def test_undo_of_what_is_paused_is_refused() -> None:
    with pytest.raises(Refused, match="undo would move nothing"):
        patches.undo(PAUSED, revision("b", 2, **NEWER))


def test_undo_holds_only_for_the_spec_that_was_looked_at() -> None:
    test, *changes = patches.undo(resource(generation=4), revision("b", 2, **NEWER))
    assert test == {"op": "test", "path": "/metadata/generation", "value": 4}
    assert [change["path"] for change in changes] == ["/spec/engine"]


def test_undo_to_what_the_spec_asks_for_is_no_patch() -> None:
    assert patches.undo(resource(**NEWER), revision("b", 2, **NEWER)) == []
