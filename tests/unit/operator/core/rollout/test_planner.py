"""Complete rollouts as readable step lists, and invariants of random rollouts."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gaudi_operator.core.rollout.rollout_step import (
    RolloutStep,
    RolloutStepLimits,
    RolloutStepPodCounts,
    RolloutStepProgress,
    next_rollout_step,
)

SURGE = RolloutStepLimits(replicas=2, max_surge=1, max_unavailable=0)
IN_PLACE = RolloutStepLimits(replicas=2, max_surge=0, max_unavailable=1)


def pods(name: str, replicas: int, ready: int = 0, served: int | None = None, number: int = 1) -> RolloutStepPodCounts:
    return RolloutStepPodCounts(name, number, replicas, ready, ready if served is None else served)


def scales(step: RolloutStep) -> dict[str, int]:
    return {scale.revision: scale.replicas for scale in step.changes}


def rollout(old: RolloutStepPodCounts, policy: RolloutStepLimits) -> list[tuple[int, int]]:
    """Return the (old, new) replicas of every step, if every pod becomes ready before the next step."""
    new, seen = pods("new", 0, number=2), []
    while (step := next_rollout_step(new, [old], policy)).progress is RolloutStepProgress.MOVING:
        to = scales(step)
        left, made = to.get("old", old.replicas), to.get("new", new.replicas)
        old, new = pods("old", left, min(old.ready, left)), pods("new", made, made, number=2)
        seen.append((left, made))
    assert step.progress is RolloutStepProgress.DONE
    return seen


def test_surge_of_one_replaces_pod_by_pod() -> None:
    assert rollout(pods("old", 2, 2), SURGE) == [(2, 1), (1, 2), (0, 2)]


def test_surge_of_all_replicas_replaces_all_pods_immediately() -> None:
    assert rollout(pods("old", 2, 2), replace(SURGE, max_surge=2)) == [(2, 2), (0, 2)]


def test_new_pod_is_added_when_an_old_one_is_removed() -> None:
    step = next_rollout_step(pods("new", 1, 1, number=2), [pods("old", 4, 4)], replace(SURGE, replicas=4))
    assert scales(step) == {"new": 2, "old": 3}


def test_in_place_removes_an_old_pod_before_adding_one() -> None:
    assert rollout(pods("old", 2, 2), IN_PLACE) == [(1, 0), (1, 1), (0, 1), (0, 2)]


def test_single_replica_in_place_is_replaced() -> None:
    assert rollout(pods("old", 1, 1), replace(IN_PLACE, replicas=1)) == [(0, 0), (0, 1)]


def test_first_revision_starts_all_pods() -> None:
    assert scales(next_rollout_step(pods("new", 0), [], SURGE)) == {"new": 2}


def test_old_pods_stay_while_no_new_one_is_ready() -> None:
    step = next_rollout_step(pods("new", 1), [pods("old", 2, 2)], SURGE)
    assert step == RolloutStep(RolloutStepProgress.WAITING)


def test_never_ready_old_pod_is_removed_before_its_successor_serves() -> None:
    assert scales(next_rollout_step(pods("new", 0, number=2), [pods("old", 2, 0, served=0)], SURGE))["old"] == 0


def test_temporarily_unready_old_pods_are_kept() -> None:
    step = next_rollout_step(pods("new", 1, number=2), [pods("old", 2, 0, served=2)], SURGE)
    assert step.progress is RolloutStepProgress.WAITING


def test_unready_pod_is_removed_before_a_ready_one() -> None:
    olds = [pods("a", 1, 1, number=1), pods("b", 1, 0, served=1, number=2)]
    assert scales(next_rollout_step(pods("new", 1, 1, number=3), olds, SURGE))["b"] == 0


def test_last_good_revision_is_removed_last() -> None:
    olds = [pods("b", 1, 1, number=2), replace(pods("a", 1, 1, number=1), fallback=True)]
    assert scales(next_rollout_step(pods("new", 1, 1, number=3), olds, SURGE)) == {"new": 2, "b": 0}


def test_older_revision_is_removed_first() -> None:
    olds = [pods("b", 1, 1, number=2), pods("a", 1, 1, number=1)]
    assert scales(next_rollout_step(pods("new", 1, 1, number=3), olds, SURGE)) == {"new": 2, "a": 0}


def test_broken_intermediate_revision_is_removed_immediately() -> None:
    olds = [pods("good", 2, 2, number=1), pods("bad", 1, 0, number=2)]
    assert scales(next_rollout_step(pods("new", 0, number=3), olds, SURGE)) == {"new": 1, "bad": 0}


def test_scale_up_starts_pods_of_the_current_revision() -> None:
    assert scales(next_rollout_step(pods("new", 2, 2), [], replace(SURGE, replicas=4))) == {"new": 4}


def test_scale_down_removes_pods_immediately() -> None:
    assert scales(next_rollout_step(pods("new", 4, 4), [], SURGE)) == {"new": 2}


def test_zero_replicas_remove_all_pods() -> None:
    step = next_rollout_step(pods("new", 1, 1, number=2), [pods("old", 2, 2)], RolloutStepLimits(0, 0, 0))
    assert scales(step) == {"new": 0, "old": 0}


def test_scale_down_during_a_rollout_keeps_the_new_minimum() -> None:
    step = next_rollout_step(pods("new", 1, 0, number=2), [pods("old", 4, 4)], SURGE)
    assert scales(step) == {"old": 2}


def test_scale_up_during_a_rollout_starts_only_new_pods() -> None:
    step = next_rollout_step(pods("new", 1, 0, number=2), [pods("old", 2, 2)], replace(SURGE, replicas=4))
    assert scales(step) == {"new": 3}


def test_lower_maximum_removes_unready_new_pods() -> None:
    step = next_rollout_step(pods("new", 3, 0, number=2), [pods("old", 3, 3)], RolloutStepLimits(3, 0, 1))
    assert scales(step) == {"new": 1, "old": 2}


def test_new_pod_waits_for_a_terminating_one_without_surge() -> None:
    olds = [pods("old", 1, 1)]
    assert (
        next_rollout_step(pods("new", 0, number=2), olds, IN_PLACE, ending_pods=1).progress
        is RolloutStepProgress.WAITING
    )
    assert scales(next_rollout_step(pods("new", 0, number=2), olds, IN_PLACE)) == {"new": 1}


def test_new_pod_with_surge_does_not_wait_for_terminating_ones() -> None:
    assert scales(next_rollout_step(pods("new", 0, number=2), [pods("old", 2, 2)], SURGE, ending_pods=3)) == {"new": 1}


def test_unscheduled_pod_is_removed_with_the_surge() -> None:
    new = RolloutStepPodCounts("new", 2, replicas=1, unplaced=1)
    assert scales(next_rollout_step(new, [pods("old", 2, 2)], IN_PLACE)) == {"new": 0, "old": 1}


@pytest.mark.parametrize("ending", [0, 1])
def test_unscheduled_pod_is_kept_within_the_maximum(ending: int) -> None:
    new = RolloutStepPodCounts("new", 2, replicas=1, unplaced=1)
    assert next_rollout_step(new, [pods("old", 1, 1)], IN_PLACE, ending).progress is RolloutStepProgress.WAITING


def test_terminating_old_pods_are_not_counted() -> None:
    going = RolloutStepPodCounts("old", 1, replicas=1, ready=2, served=2)
    assert scales(next_rollout_step(pods("new", 1, number=2), [going], SURGE)) == {"new": 2}


def test_forbidden_revision_is_only_scaled_down() -> None:
    forbidden = replace(pods("new", 2, 2), forbidden=True)
    assert scales(next_rollout_step(forbidden, [], replace(SURGE, replicas=4))) == {}
    assert scales(next_rollout_step(forbidden, [], replace(SURGE, replicas=1))) == {"new": 1}


@dataclass
class Pod:
    """A pod of the simulation. A broken pod never becomes ready."""

    broken: bool = False
    ready: bool = False
    served: bool = False


@dataclass
class World:
    """A simulation of revisions by number. `settle` plays the ReplicaSet controller."""

    policy: RolloutStepLimits
    revisions: dict[int, list[Pod]]
    broken: frozenset[int] = frozenset()
    desired: dict[int, int] = field(default_factory=dict)

    def ready(self) -> int:
        return sum(pod.ready for each in self.revisions.values() for pod in each)

    def total(self) -> int:
        return sum(len(each) for each in self.revisions.values())

    def step(self, oldest_first: bool = True, ending: int = 0) -> RolloutStep:
        counted = [
            RolloutStepPodCounts(
                str(number),
                number,
                self.desired.get(number, len(each)),
                sum(p.ready for p in each),
                sum(p.served for p in each),
            )
            for number, each in sorted(self.revisions.items())
        ]
        newest = self.revisions[max(self.revisions)]
        others = [pod for number, each in self.revisions.items() if number != max(self.revisions) for pod in each]
        trial = any(pod.served for pod in others) and not any(pod.ready for pod in newest)
        olds = counted[:-1] if oldest_first else counted[-2::-1]
        return next_rollout_step(counted[-1], olds, replace(self.policy, trial=trial), ending)

    def apply(self, step: RolloutStep) -> None:
        for scale in step.changes:
            self.desired[int(scale.revision)] = scale.replicas

    def settle(self) -> None:
        for number, desired in self.desired.items():
            each = self.revisions[number]
            each.sort(key=lambda pod: (not pod.ready, not pod.served))
            del each[desired:]
            each += [Pod(broken=number in self.broken) for _ in range(desired - len(each))]

    def warm_one(self, index: int) -> bool:
        waiting = [pod for each in self.revisions.values() for pod in each if not pod.ready and not pod.broken]
        if not waiting:
            return False
        pod = waiting[index % len(waiting)]
        pod.ready = pod.served = True
        return True


@st.composite
def policies(draw: st.DrawFn) -> RolloutStepLimits:
    desired = draw(st.integers(0, 8))
    surge = draw(st.integers(0, 4))
    unavailable = draw(st.integers(0 if surge else 1, 4))
    return RolloutStepLimits(desired, surge, min(unavailable, desired))


@st.composite
def rollout_states(draw: st.DrawFn) -> World:
    """Draw a state in which an operator may start. Each pod is ready, was ready before, or was never ready."""
    kinds = st.sampled_from([(True, True), (False, True), (False, False)])
    revisions = {
        number: [Pod(ready=ready, served=served) for ready, served in draw(st.lists(kinds, max_size=6))]
        for number in range(draw(st.integers(1, 4)))
    }
    return World(draw(policies()), revisions)


def run(world: World, choices: st.DataObject, limit: int = 200) -> None:
    """Run a rollout in which pods become ready in any order, and check minimum and maximum pods at every step."""
    for _ in range(limit):
        before, total = world.ready(), world.total()
        step = world.step()
        world.apply(step)
        if step.progress is not RolloutStepProgress.MOVING or choices.draw(
            st.booleans(), label="the controller is quick"
        ):
            world.settle()
        assert world.ready() >= min(before, world.policy.min_available_pods)
        assert world.total() <= max(total, world.policy.max_pods)
        if step.progress is RolloutStepProgress.DONE:
            return
        if step.progress is RolloutStepProgress.WAITING and not world.warm_one(choices.draw(st.integers(0, 50))):
            raise AssertionError(f"the rollout is stuck: {world}")
    raise AssertionError(f"no end: {world}")


@settings(max_examples=300)
@given(rollout_states(), st.data())
def test_rollout_from_any_state_completes_within_its_limits(world: World, choices: st.DataObject) -> None:
    run(world, choices)
    *olds, newest = [pods for _, pods in sorted(world.revisions.items())]
    assert not any(olds)
    assert len(newest) == world.policy.replicas
    assert all(pod.ready for pod in newest)


@settings(max_examples=200)
@given(rollout_states(), st.lists(policies(), min_size=1, max_size=3), st.data())
def test_replicas_and_policy_may_change_during_a_rollout(
    world: World, later: list[RolloutStepLimits], choices: st.DataObject
) -> None:
    for policy in later:
        for _ in range(choices.draw(st.integers(0, 4))):
            world.apply(world.step())
            world.settle()
            world.warm_one(choices.draw(st.integers(0, 50)))
        world.policy = policy
    run(world, choices)


@settings(max_examples=200)
@given(rollout_states(), st.data())
@example(World(SURGE, {0: [Pod(ready=True, served=True)] * 2, 1: []}), None)
def test_revision_that_never_warms_up_keeps_the_minimum(world: World, choices: object) -> None:
    newest = max(world.revisions)
    world.broken, world.revisions[newest] = frozenset({newest}), []
    before = world.ready()
    for _ in range(20):
        world.apply(world.step())
        world.settle()
    assert world.ready() >= min(before, world.policy.min_available_pods)


@settings(max_examples=200)
@given(rollout_states(), st.data())
def test_old_pods_that_never_warm_up_block_no_rollout(world: World, choices: st.DataObject) -> None:
    *old, newest = (world.revisions[number] for number in sorted(world.revisions))
    for pod in (pod for each in old for pod in each):
        pod.broken = not pod.ready
    run(world, choices)
    assert [pod.ready for pod in newest] == [True] * world.policy.replicas


@settings(max_examples=200)
@given(rollout_states(), st.integers(0, 8))
@example(World(replace(IN_PLACE, replicas=3), {0: [Pod(ready=True, served=True)], 1: []}), 1)
def test_new_pods_without_surge_wait_for_terminating_pods(world: World, ending: int) -> None:
    world.policy = replace(world.policy, max_surge=0, max_unavailable=max(1, world.policy.max_unavailable))
    total = world.total()
    world.apply(world.step(ending=ending))
    world.settle()
    assert world.total() <= max(total, world.policy.max_pods - ending)


@settings(max_examples=200)
@given(rollout_states())
def test_step_is_independent_of_the_order_of_revisions(world: World) -> None:
    assert world.step() == world.step(oldest_first=False)


@settings(max_examples=200)
@given(rollout_states())
def test_pause_removes_no_ready_pod_while_replicas_are_unchanged(world: World) -> None:
    world.policy = replace(world.policy, paused=True)
    if not any(world.revisions[number] for number in sorted(world.revisions)[:-1]):
        return
    kept = min(world.ready(), world.policy.replicas)
    for _ in range(10):
        world.apply(world.step())
        world.settle()
    assert world.ready() >= kept
