"""Steps of the planner while a canary is on trial, and while the rollout is paused."""

from dataclasses import replace

import pytest

from gaudi_operator.core.rollout.rollout_step import (
    RolloutStep,
    RolloutStepLimits,
    RolloutStepPodCounts,
    RolloutStepProgress,
    next_rollout_step,
)
from tests.unit.operator.core.rollout.test_planner import IN_PLACE, SURGE, pods, scales


def test_first_new_pod_is_alone_during_its_trial() -> None:
    trial = replace(SURGE, replicas=4, max_surge=2, trial=True)
    assert scales(next_rollout_step(pods("new", 0, number=2), [pods("old", 4, 4)], trial)) == {"new": 1}
    assert (
        next_rollout_step(pods("new", 1, 1, number=2), [pods("old", 4, 4)], trial).progress
        is RolloutStepProgress.WAITING
    )
    proven = replace(trial, trial=False)
    assert scales(next_rollout_step(pods("new", 1, 1, number=2), [pods("old", 4, 4)], proven)) == {"new": 3, "old": 3}


def test_in_place_canary_replaces_one_pod_despite_max_unavailable() -> None:
    trial = RolloutStepLimits(4, 0, 3, trial=True)
    assert scales(next_rollout_step(pods("new", 0, number=2), [pods("old", 4, 4)], trial)) == {"old": 3}
    assert (
        next_rollout_step(pods("new", 1, number=2), [pods("old", 3, 3)], trial).progress is RolloutStepProgress.WAITING
    )


@pytest.mark.parametrize(
    ("surge", "ready", "old"), [(1, 0, 9), (1, 1, 9), (0, 0, 8)], ids=["warming up", "observed", "in place"]
)
def test_scale_up_during_a_trial_adds_serving_pods(surge: int, ready: int, old: int) -> None:
    trial = RolloutStepLimits(9, surge, 0, trial=True)
    step = next_rollout_step(pods("new", 1, ready, number=2), [pods("old", 3, 3)], trial)
    assert scales(step) == {"old": old}


def test_scale_up_before_the_canary_leaves_room_for_it() -> None:
    trial = RolloutStepLimits(4, 0, 1, trial=True)
    assert scales(next_rollout_step(pods("new", 0, number=2), [pods("old", 2, 2)], trial)) == {"old": 3, "new": 1}


def test_scale_up_in_place_waits_for_terminating_pods() -> None:
    trial = RolloutStepLimits(4, 0, 1, trial=True)
    step = next_rollout_step(pods("new", 1, number=2), [pods("old", 1, 1)], trial, ending_pods=1)
    assert scales(step) == {"old": 2}


def test_trial_scale_up_prefers_the_last_good_revision() -> None:
    trial = replace(SURGE, replicas=6, trial=True)
    olds = [replace(pods("good", 1, 1, number=1), fallback=True), pods("between", 2, 2, number=2)]
    assert scales(next_rollout_step(pods("new", 1, number=3), olds, trial)) == {"good": 4}


@pytest.mark.parametrize("unfit", [{"failed": True}, {"forbidden": True}])
def test_trial_scale_up_skips_failed_and_forbidden_revisions(unfit: dict[str, bool]) -> None:
    old = replace(pods("old", 2, 2), **unfit)
    step = next_rollout_step(pods("new", 1, number=2), [old], replace(SURGE, replicas=4, trial=True))
    assert step.progress is RolloutStepProgress.WAITING


def test_scaled_up_pods_are_kept_until_they_are_ready() -> None:
    trial = replace(SURGE, replicas=9, trial=True)
    step = next_rollout_step(pods("new", 1, number=2), [pods("old", 9, 3)], trial)
    assert step.progress is RolloutStepProgress.WAITING


def test_warming_old_pods_are_replaced_one_by_one() -> None:
    proven = replace(SURGE, replicas=9)
    olds = [pods("old", 9, 3)]
    assert scales(next_rollout_step(pods("new", 1, 1, number=2), olds, proven)) == {"old": 8, "new": 2}
    assert scales(next_rollout_step(pods("new", 2, 1, number=2), [pods("old", 8, 3)], proven)) == {}


def test_unscheduled_old_pods_are_removed_after_the_trial() -> None:
    old = replace(pods("old", 9, 3), unplaced=6)
    step = next_rollout_step(pods("new", 1, 1, number=2), [old], replace(SURGE, replicas=9))
    assert scales(step) == {"old": 3, "new": 7}


def test_scale_down_continues_during_a_trial() -> None:
    trial = replace(SURGE, trial=True)
    assert scales(next_rollout_step(pods("new", 1, number=2), [pods("old", 6, 6)], trial)) == {"old": 2}


def test_revision_on_trial_again_keeps_its_pods_and_adds_none() -> None:
    again = replace(SURGE, trial=True)
    assert next_rollout_step(pods("new", 2, 2, number=2), [pods("old", 2, 2)], again) == RolloutStep(
        RolloutStepProgress.WAITING
    )


def test_shrinking_revision_on_trial_leaves_room_for_old_pods() -> None:
    step = next_rollout_step(pods("new", 4, number=2), [pods("old", 2, 2)], RolloutStepLimits(2, 1, 2, trial=True))
    assert scales(step) == {"new": 2, "old": 1}


def test_paused_rollout_scales_no_revision() -> None:
    step = next_rollout_step(pods("new", 1, 1, number=2), [pods("old", 2, 2)], replace(SURGE, paused=True))
    assert step == RolloutStep(RolloutStepProgress.PAUSED)


def test_paused_rollout_scales_up_the_serving_revision() -> None:
    step = next_rollout_step(pods("new", 1, 0, number=2), [pods("old", 2, 2)], replace(SURGE, replicas=5, paused=True))
    assert scales(step) == {"old": 4}


@pytest.mark.parametrize(("replicas", "old"), [(4, {"old": 4}), (3, {}), (2, {"old": 2}), (1, {"old": 1})])
def test_failed_revision_neither_counts_nor_loses_pods_while_paused(replicas: int, old: dict[str, int]) -> None:
    failed = replace(pods("new", 1, number=2), failed=True)
    held = replace(SURGE, replicas=replicas, paused=True)
    assert scales(next_rollout_step(failed, [pods("old", 3, 3)], held)) == old


def test_failed_revision_runs_while_paused_if_no_other_can() -> None:
    failed = replace(pods("new", 0, number=2), failed=True)
    assert scales(next_rollout_step(failed, [], replace(SURGE, paused=True))) == {"new": 2}


@pytest.mark.parametrize("new", [pods("new", 0, number=2), replace(pods("new", 1, number=2), failed=True)])
def test_last_good_revision_returns_from_zero_while_paused(new: RolloutStepPodCounts) -> None:
    good = replace(pods("old", 0), fallback=True)
    step = next_rollout_step(new, [good], replace(SURGE, paused=True))
    assert (step.progress, scales(step)) == (RolloutStepProgress.PAUSED, {"old": 2})


def test_canary_of_the_last_good_revision_is_alone_while_paused() -> None:
    good, bad = replace(pods("good", 1, number=3), fallback=True), replace(pods("bad", 1, 1, number=2), failed=True)
    paused = replace(SURGE, replicas=3, paused=True, trial=True)
    assert scales(next_rollout_step(good, [bad], paused)) == {}
    assert scales(next_rollout_step(replace(good, replicas=0), [bad], paused)) == {"good": 1}


def test_paused_rollout_is_scaled_to_zero() -> None:
    olds = [replace(pods("old", 2, 2), fallback=True)]
    step = next_rollout_step(
        replace(pods("new", 1, number=2), failed=True), olds, RolloutStepLimits(0, 1, 0, paused=True)
    )
    assert scales(step) == {"old": 0, "new": 0}


def test_paused_rollout_prefers_the_last_good_revision() -> None:
    good = replace(pods("old", 1, 1), fallback=True)
    step = next_rollout_step(pods("new", 2, 2, number=2), [good], replace(SURGE, replicas=5, paused=True))
    assert scales(step) == {"old": 3}


def test_paused_scale_up_without_surge_waits_for_terminating_pods() -> None:
    good = replace(pods("old", 0), fallback=True)
    paused = replace(IN_PLACE, paused=True)
    assert scales(next_rollout_step(pods("new", 0, number=2), [good], paused, ending_pods=2)) == {}
    assert scales(next_rollout_step(pods("new", 0, number=2), [good], paused)) == {"old": 2}


def test_paused_rollout_adds_no_pods_to_failed_or_new_revisions() -> None:
    failed = replace(pods("old", 2), failed=True)
    assert scales(next_rollout_step(pods("new", 0, number=2), [failed], replace(SURGE, replicas=3, paused=True))) == {}


def test_paused_rollout_adds_no_pods_to_a_forbidden_revision() -> None:
    old = replace(pods("old", 2, 2), forbidden=True)
    paused = replace(SURGE, replicas=4, paused=True)
    assert scales(next_rollout_step(pods("new", 0, number=2), [old], paused)) == {}
    assert scales(next_rollout_step(pods("new", 1, 1, number=2), [old], paused)) == {"new": 2}


@pytest.mark.parametrize("ready", [0, 1])
def test_paused_scale_down_keeps_the_canary(ready: int) -> None:
    step = next_rollout_step(pods("new", 1, ready, number=2), [pods("old", 3, 3)], replace(SURGE, paused=True))
    assert scales(step) == {"old": 2}


def test_paused_scale_down_removes_new_pods_before_old_ones() -> None:
    step = next_rollout_step(pods("new", 3, 3, number=2), [pods("old", 1, 1)], replace(SURGE, paused=True))
    assert scales(step) == {"new": 2}


def test_paused_rollout_removes_unready_pods_first() -> None:
    step = next_rollout_step(pods("new", 3, 3, number=2), [pods("old", 1)], replace(SURGE, paused=True))
    assert scales(step) == {"old": 0}


def test_paused_canary_without_room_costs_no_serving_pod() -> None:
    waiting = replace(pods("new", 1, number=2), unplaced=1)
    step = next_rollout_step(waiting, [pods("old", 2, 2)], replace(IN_PLACE, paused=True, trial=True))
    assert step == RolloutStep(RolloutStepProgress.PAUSED)


def test_paused_scale_up_does_not_count_the_canary() -> None:
    paused = replace(SURGE, replicas=3, paused=True, trial=True)
    assert scales(next_rollout_step(pods("new", 1, number=2), [pods("old", 2, 2)], paused)) == {"old": 3}


def test_paused_rollout_scales_down_ready_pods_if_all_are_ready() -> None:
    step = next_rollout_step(pods("new", 0, number=2), [pods("old", 3, 3)], replace(SURGE, paused=True))
    assert scales(step) == {"old": 2}


@pytest.mark.parametrize(("ready", "changes"), [(0, {}), (1, {"old": 1})])
def test_paused_undo_keeps_old_pods_until_new_ones_are_ready(ready: int, changes: dict[str, int]) -> None:
    stable = replace(pods("stable", 1, ready, number=3), fallback=True)
    step = next_rollout_step(stable, [pods("old", 2, 2, number=2)], replace(SURGE, paused=True))
    assert scales(step) == changes


def test_paused_first_revision_starts_its_pods() -> None:
    assert scales(next_rollout_step(pods("new", 0), [], replace(SURGE, paused=True))) == {"new": 2}
