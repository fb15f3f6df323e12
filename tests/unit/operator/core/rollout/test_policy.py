"""maxSurge, maxUnavailable and pauses: how many pods a rollout may add and remove."""

import pytest

from gaudi_operator.api.v1alpha1.rollout import Rollout, RolloutType
from gaudi_operator.core.rollout.rollout_step import RolloutStepLimits, resolve_rollout_step_limit, rollout_step_limits


@pytest.mark.parametrize(
    ("amount", "round_up", "pods"),
    [(2, True, 2), ("25%", True, 2), ("25%", False, 1), ("100%", False, 5), ("0%", True, 0)],
)
def test_percentage_is_relative_to_the_replicas(amount: int | str, round_up: bool, pods: int) -> None:
    assert resolve_rollout_step_limit(amount, 5, round_up=round_up) == pods


def test_fractional_pod_count_is_rounded_up() -> None:
    assert resolve_rollout_step_limit("1%", 101, round_up=True) == 2


def test_default_policy_is_a_surge_of_one() -> None:
    assert rollout_step_limits(Rollout(), 3) == RolloutStepLimits(3, max_surge=1, max_unavailable=0)


def test_in_place_policy_has_no_surge_and_one_unavailable() -> None:
    assert rollout_step_limits(Rollout(), 3, in_place=True) == RolloutStepLimits(3, max_surge=0, max_unavailable=1)


@pytest.mark.parametrize("unavailable", [None, "10%"])
def test_in_place_misses_at_least_one_replica(unavailable: str | None) -> None:
    assert rollout_step_limits(Rollout(type=RolloutType.IN_PLACE, max_unavailable=unavailable), 3) == RolloutStepLimits(
        3, max_surge=0, max_unavailable=1
    )


def test_surge_is_rounded_up_and_max_unavailable_down() -> None:
    assert rollout_step_limits(Rollout(max_surge="25%", max_unavailable="50%"), 3) == RolloutStepLimits(3, 1, 1)


@pytest.mark.parametrize(("replicas", "surge", "unavailable"), [(1, 1, 0), (2, 1, 0), (3, 1, 0), (8, 2, 2)])
def test_quarter_of_few_replicas_is_one_surge_and_zero_unavailable(replicas: int, surge: int, unavailable: int) -> None:
    quarter = Rollout(max_surge="25%", max_unavailable="25%")
    assert rollout_step_limits(quarter, replicas) == RolloutStepLimits(replicas, surge, unavailable)
    assert rollout_step_limits(quarter, replicas, in_place=True) == RolloutStepLimits(replicas, 0, max(1, unavailable))


def test_max_unavailable_is_limited_by_the_replicas() -> None:
    assert rollout_step_limits(Rollout(max_unavailable=5), 3).max_unavailable == 3


def test_refused_spec_pauses_the_rollout() -> None:
    assert rollout_step_limits(Rollout(), 3, frozen=True).paused
