"""`kubectl gaudi rollout pause`, `resume` and `restart`: patches."""

import pytest

from gaudi_operator.cli.kubectl.rollout import pause_patch, restart_patch, resume_patch
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from tests.unit.operator.core.resources import resource

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
