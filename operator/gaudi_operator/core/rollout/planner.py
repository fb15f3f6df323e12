"""The rollout planner: from the replicas of all revisions, and how many are ready, to the next scale step.

No progress is stored anywhere: every reconcile derives the next step from what there is, so an operator that was
killed in the middle goes on where it stopped. What makes it harder than it looks: several old revisions at once,
replicas that change in the middle, old pods that are broken and must not hold the room of their successors, old
pods that are only away for a moment and must not be given up, and a ceiling that may sink below what runs.

A new revision is on trial until its first pod, the canary, has proven itself: until then it has that one pod, and no
old pod goes for its sake unless its place is needed.

The rules, in this order: revisions never exceed replicas + maxSurge in sum; old pods that never served go at
once, for they protect nobody; other old pods go only while (their number + the new ready ones) stays at or above
replicas - maxUnavailable, those that are not ready first, as the ReplicaSet controller does.

`rollout_policy` reads these numbers of pods from what the resource says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_operator.api.v1alpha1.scaling import Rollout


@dataclass(frozen=True)
class RevisionPods:
    """Pods of one revision: desired by its ReplicaSet, ready now, and ever ready (`served`, ready ones included).

    `unplaced` are those that have no node, or that were not even allowed to be made. A revision that has `failed` gets
    no more pods while the rollout is on hold: it would only be tried again. One that is `forbidden` never does.
    """

    name: str
    number: int
    replicas: int
    ready: int = 0
    served: int = 0
    unplaced: int = 0
    failed: bool = False
    forbidden: bool = False

    def settled(self, replicas: int | None = None) -> "RevisionPods":
        """As it will be once the ReplicaSet controller has followed: it removes pods that are not ready first."""
        desired = self.replicas if replicas is None else replicas
        ready = min(self.ready, desired)
        return replace(self, replicas=desired, ready=ready, served=min(max(self.served, ready), desired))


@dataclass(frozen=True)
class Policy:
    """Numbers of pods, percentages resolved; on `trial` the new revision has one pod, the canary."""

    desired: int
    max_surge: int
    max_unavailable: int
    paused: bool = False
    trial: bool = False

    @property
    def floor(self) -> int:
        """Pods that stay available during a rollout."""
        return max(0, self.desired - self.max_unavailable)

    @property
    def ceiling(self) -> int:
        """Most pods in sum, those that are already going aside."""
        return self.desired + self.max_surge


class Progress(StrEnum):
    """Where a rollout stands."""

    DONE = "Done"
    MOVING = "Moving"
    WAITING = "Waiting"
    PAUSED = "Paused"


@dataclass(frozen=True)
class Scale:
    """One ReplicaSet's new number of replicas."""

    revision: str
    replicas: int


@dataclass(frozen=True)
class Step:
    """What to do next; `scales` is empty unless the rollout is MOVING or PAUSED with replicas changed."""

    progress: Progress
    scales: tuple[Scale, ...] = ()


def next_step(current: RevisionPods, olds: Sequence[RevisionPods], policy: Policy, ending: int = 0) -> Step:
    """The next step towards `policy.desired` ready pods of `current` and none of `olds`.

    `ending` are pods that still end. Without a surge a new pod waits for them: its place is theirs until then. With
    one a successor comes in the step that takes its predecessor; what takes is to be written before what adds.
    """
    before = [current.settled(), *(old.settled() for old in sorted(olds, key=lambda old: old.number))]
    if policy.paused and any(old.replicas for old in olds):
        return Step(Progress.PAUSED, _scales(before, _hold(before, policy)))
    # What gives room is planned before what takes it: each step sees the numbers that the one before leaves.
    planned = [_withdraw(before, current.unplaced, policy), *before[1:]]
    retired = [planned[0], *_retire(planned, policy)]
    after = [_grow(retired if policy.max_surge else planned, policy, ending), *retired[1:]]
    found = _scales(before, _under_ceiling(after, policy))
    return Step(Progress.MOVING, found) if found else Step(_rest(before, policy))


def _withdraw(pods: Sequence[RevisionPods], unplaced: int, policy: Policy) -> RevisionPods:
    """New pods without a node go first where there are too many: nothing is lost with them."""
    excess = sum(each.replicas for each in pods) - policy.ceiling
    return pods[0].settled(pods[0].replicas - max(0, min(excess, unplaced)))


def _grow(pods: Sequence[RevisionPods], policy: Policy, ending: int) -> RevisionPods:
    current = pods[0]
    # Pods that still end hold their cards until they are gone; with a surge the ceiling has room beside them.
    room = policy.ceiling - sum(each.replicas for each in pods) - (0 if policy.max_surge else ending)
    desired = min(policy.desired, _most(current, policy), current.replicas + max(0, room))
    return current.settled(desired)


def _most(current: RevisionPods, policy: Policy) -> int:
    if current.forbidden or (current.failed and policy.paused):
        return current.replicas
    # Not fewer than there are: a revision that is put on trial again, as its canary closed its gate, keeps its pods.
    return max(1, current.replicas) if policy.trial else policy.desired


def _retire(pods: Sequence[RevisionPods], policy: Policy) -> list[RevisionPods]:
    current, olds = pods[0].settled(min(pods[0].replicas, policy.desired)), pods[1:]
    # Old pods that never served protect nobody, and may hold the very cards that the new ones need.
    olds = [old.settled(old.served) for old in olds]
    spare = sum(old.served for old in olds) + current.ready - policy.floor
    if policy.trial:
        # What the canary serves does not count yet: nothing has shown that it stays.
        spare = min(spare - current.ready, _in_the_way(current, olds, policy))
    return _take(_take(olds, spare, keep_ready=True), spare - _not_ready(olds), keep_ready=False)


def _in_the_way(current: RevisionPods, olds: Sequence[RevisionPods], policy: Policy) -> int:
    """Old pods that go although nothing has proven itself: above what is desired, or in the place of the canary."""
    old = sum(each.replicas for each in olds)
    return max(old - policy.desired, old + max(min(1, policy.desired), current.replicas) - policy.ceiling)


def _not_ready(pods: Sequence[RevisionPods]) -> int:
    return sum(each.replicas - each.ready for each in pods)


def _take(pods: Sequence[RevisionPods], count: int, *, keep_ready: bool) -> list[RevisionPods]:
    """Take up to `count` pods, from the first revision on."""
    left = []
    for each in pods:
        may_go = each.replicas - each.ready if keep_ready else each.replicas
        taken = max(0, min(count, may_go))
        count -= taken
        left.append(each.settled(each.replicas - taken))
    return left


def _under_ceiling(pods: list[RevisionPods], policy: Policy) -> list[RevisionPods]:
    """A ceiling that sank below what runs takes new pods that are not ready: they can be made again."""
    excess = sum(each.replicas for each in pods) - policy.ceiling
    return [*_take(pods[:1], excess, keep_ready=True), *pods[1:]]


def _hold(pods: Sequence[RevisionPods], policy: Policy) -> list[RevisionPods]:
    """Paused: no revision replaces another, but the desired number of pods is kept."""
    total = sum(each.replicas for each in pods)
    most = policy.desired + min(policy.max_surge, pods[0].replicas)
    if total < policy.desired:
        # To scale a held rollout up, whatever serves best grows; a revision that failed would only fail once more.
        proven = (each for each in pods if each.replicas and not each.failed and not each.forbidden)
        grown = max(proven, key=lambda each: (each.ready, each.replicas, each.number), default=None)
        return [each.settled(each.replicas + policy.desired - total) if each is grown else each for each in pods]
    excess = max(0, total - most)
    kept = _take(pods, excess, keep_ready=True)
    return _take(kept, excess - (total - sum(each.replicas for each in kept)), keep_ready=False)


def _scales(before: Sequence[RevisionPods], after: Sequence[RevisionPods]) -> tuple[Scale, ...]:
    pairs = zip(before, after, strict=True)
    return tuple(Scale(old.name, new.replicas) for old, new in pairs if old.replicas != new.replicas)


def _rest(pods: Sequence[RevisionPods], policy: Policy) -> Progress:
    """Where a rollout stands that has nothing to scale."""
    current, olds = pods[0], pods[1:]
    done = current.replicas == policy.desired and current.ready >= policy.desired
    return Progress.DONE if done and not any(old.replicas for old in olds) else Progress.WAITING


def rollout_policy(
    rollout: Rollout, desired: int, *, frozen: bool = False, in_place: bool = False, trial: bool = False
) -> Policy:
    """Percentages are of `desired` replicas: maxSurge rounds up and maxUnavailable down, as Deployments do.

    `frozen` holds the rollout as spec.rollout.paused does, `in_place` takes away the surge because there is no room for
    it (room.py), and `trial` lets one pod of the new revision run. Where both numbers come to 0, one pod may be
    missing: otherwise no pod could ever be replaced.
    """
    surge = 0 if in_place else scaled_amount(rollout.max_surge, desired, round_up=True)
    unavailable = scaled_amount(rollout.max_unavailable, desired, round_up=False)
    # Both 0 would never replace a pod; the Deployment controller does the same.
    if surge == 0:
        unavailable = max(1, unavailable)
    return Policy(desired, surge, min(unavailable, desired), paused=rollout.paused or frozen, trial=trial)


def scaled_amount(amount: int | str, desired: int, *, round_up: bool) -> int:
    """A number of pods, or percent of `desired` such as "25%"."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.removesuffix("%")) * desired
    return -(-hundredths // 100) if round_up else hundredths // 100
