"""The rollout planner: computes the next scale step from the replicas and ready pods of all revisions.

No progress is stored. Every reconcile derives the next step from the observed state, so an operator that was killed
halfway continues correctly. The planner handles several old revisions at once, `replicas` changes during a rollout,
broken old pods that must not hold cards, old pods that are unavailable for a moment and must be kept, and a maximum
that may drop below the running number of pods.

A new revision is on trial until its first pod, the canary, is ready. During the trial it has only the canary, and old
pods are removed only if the canary needs their place.

The rules apply in this order. The sum of all revisions never exceeds replicas + maxSurge. Old pods that were never
ready are removed at once, because they serve no traffic. Other old pods are removed only while their number plus the
ready new pods stays at or above replicas - maxUnavailable. Pods that are not ready are removed first, as in the
ReplicaSet controller.

`rollout_policy` resolves these numbers from the spec.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_operator.api.v1alpha1.scaling import Rollout


@dataclass(frozen=True)
class RevisionPods:
    """The pod counts of one revision for the rollout planner.

    They are the replicas of its ReplicaSet, the pods ready now, and the pods ready at any time (`served`). `served`
    includes ready pods. `unplaced` pods have no node or could not be created. A revision that has `failed` gets no more
    pods while the rollout is paused, because they would fail again. A `forbidden` revision never gets more pods.
    """

    name: str
    number: int
    replicas: int
    ready: int = 0
    served: int = 0
    unplaced: int = 0
    failed: bool = False
    forbidden: bool = False

    def scaled_to(self, replicas: int | None = None) -> "RevisionPods":
        """Return the counts after scaling to `replicas`. The ReplicaSet controller removes unready pods first."""
        desired = self.replicas if replicas is None else replicas
        ready = min(self.ready, desired)
        return replace(self, replicas=desired, ready=ready, served=min(max(self.served, ready), desired))


@dataclass(frozen=True)
class RolloutPolicy:
    """The limits of a rollout for the planner, as numbers of pods.

    During a `trial`, the new revision has only the canary pod.
    """

    desired: int
    max_surge: int
    max_unavailable: int
    paused: bool = False
    trial: bool = False

    @property
    def floor(self) -> int:
        """The minimum number of available pods during a rollout."""
        return max(0, self.desired - self.max_unavailable)

    @property
    def ceiling(self) -> int:
        """The maximum number of pods of all revisions, without terminating pods."""
        return self.desired + self.max_surge


class RolloutProgress(StrEnum):
    """The progress of a rollout after the planner's next step: done, moving, waiting or paused."""

    DONE = "Done"
    MOVING = "Moving"
    WAITING = "Waiting"
    PAUSED = "Paused"


@dataclass(frozen=True)
class ReplicaChange:
    """A scale step of the rollout planner: the new number of replicas of one revision's workload."""

    revision: str
    replicas: int


@dataclass(frozen=True)
class RolloutStep:
    """The next step that the rollout planner computes: the progress and the workloads to scale.

    `scales` is empty unless the rollout is moving, or is paused and the replicas changed.
    """

    progress: RolloutProgress
    scales: tuple[ReplicaChange, ...] = ()


def next_rollout_step(
    current: RevisionPods, olds: Sequence[RevisionPods], policy: RolloutPolicy, ending: int = 0
) -> RolloutStep:
    """Return the next step towards `policy.desired` ready pods of `current` and no pods of `olds`.

    `ending` is the number of terminating pods. Without a surge, a new pod waits until they are gone, because they hold
    the cards. With a surge, the same step removes old pods and adds new pods. Removals are written first.
    """
    before = [current.scaled_to(), *(old.scaled_to() for old in sorted(olds, key=lambda old: old.number))]
    if policy.paused and any(old.replicas for old in olds):
        return RolloutStep(RolloutProgress.PAUSED, _scales(before, _hold(before, policy)))
    # Changes that free room come before changes that use it. Each change starts from the counts after the previous one.
    planned = [_withdraw(before, current.unplaced, policy), *before[1:]]
    retired = [planned[0], *_retire(planned, policy)]
    after = [_grow(retired if policy.max_surge else planned, policy, ending), *retired[1:]]
    found = _scales(before, _under_ceiling(after, policy))
    return RolloutStep(RolloutProgress.MOVING, found) if found else RolloutStep(_rest(before, policy))


def _withdraw(pods: Sequence[RevisionPods], unplaced: int, policy: RolloutPolicy) -> RevisionPods:
    """Remove new pods without a node if there are too many pods, because these pods lose no warm-up."""
    excess = sum(each.replicas for each in pods) - policy.ceiling
    return pods[0].scaled_to(pods[0].replicas - max(0, min(excess, unplaced)))


def _grow(pods: Sequence[RevisionPods], policy: RolloutPolicy, ending: int) -> RevisionPods:
    current = pods[0]
    # Terminating pods hold their cards until they are gone. With a surge, the maximum allows new pods next to them.
    room = policy.ceiling - sum(each.replicas for each in pods) - (0 if policy.max_surge else ending)
    desired = min(policy.desired, _most(current, policy), current.replicas + max(0, room))
    return current.scaled_to(desired)


def _most(current: RevisionPods, policy: RolloutPolicy) -> int:
    if current.forbidden or (current.failed and policy.paused):
        return current.replicas
    # Keep existing pods, because a revision is on trial again if the gate of its canary closes.
    return max(1, current.replicas) if policy.trial else policy.desired


def _retire(pods: Sequence[RevisionPods], policy: RolloutPolicy) -> list[RevisionPods]:
    current, olds = pods[0].scaled_to(min(pods[0].replicas, policy.desired)), pods[1:]
    # Old pods that were never ready serve no traffic, and may hold the cards that new pods need.
    olds = [old.scaled_to(old.served) for old in olds]
    spare = sum(old.served for old in olds) + current.ready - policy.floor
    if policy.trial:
        # The canary does not count as available yet.
        spare = min(spare - current.ready, _in_the_way(current, olds, policy))
    return _take(_take(olds, spare, keep_ready=True), spare - _not_ready(olds), keep_ready=False)


def _in_the_way(current: RevisionPods, olds: Sequence[RevisionPods], policy: RolloutPolicy) -> int:
    """Return how many old pods to remove during a trial, to meet the desired number or to make room for the canary."""
    old = sum(each.replicas for each in olds)
    return max(old - policy.desired, old + max(min(1, policy.desired), current.replicas) - policy.ceiling)


def _not_ready(pods: Sequence[RevisionPods]) -> int:
    return sum(each.replicas - each.ready for each in pods)


def _take(pods: Sequence[RevisionPods], count: int, *, keep_ready: bool) -> list[RevisionPods]:
    """Remove up to `count` pods, starting with the first revision."""
    left = []
    for each in pods:
        may_go = each.replicas - each.ready if keep_ready else each.replicas
        taken = max(0, min(count, may_go))
        count -= taken
        left.append(each.scaled_to(each.replicas - taken))
    return left


def _under_ceiling(pods: list[RevisionPods], policy: RolloutPolicy) -> list[RevisionPods]:
    """Remove unready new pods if more pods run than the maximum. They can be created again later."""
    excess = sum(each.replicas for each in pods) - policy.ceiling
    return [*_take(pods[:1], excess, keep_ready=True), *pods[1:]]


def _hold(pods: Sequence[RevisionPods], policy: RolloutPolicy) -> list[RevisionPods]:
    """Keep the desired number of pods while the rollout is paused, without replacing revisions."""
    total = sum(each.replicas for each in pods)
    most = policy.desired + min(policy.max_surge, pods[0].replicas)
    if total < policy.desired:
        # Scale up the revision with the most ready pods. A failed revision would fail again.
        proven = (each for each in pods if each.replicas and not each.failed and not each.forbidden)
        grown = max(proven, key=lambda each: (each.ready, each.replicas, each.number), default=None)
        return [each.scaled_to(each.replicas + policy.desired - total) if each is grown else each for each in pods]
    excess = max(0, total - most)
    kept = _take(pods, excess, keep_ready=True)
    return _take(kept, excess - (total - sum(each.replicas for each in kept)), keep_ready=False)


def _scales(before: Sequence[RevisionPods], after: Sequence[RevisionPods]) -> tuple[ReplicaChange, ...]:
    pairs = zip(before, after, strict=True)
    return tuple(ReplicaChange(old.name, new.replicas) for old, new in pairs if old.replicas != new.replicas)


def _rest(pods: Sequence[RevisionPods], policy: RolloutPolicy) -> RolloutProgress:
    """Return the progress of a rollout that has nothing to scale."""
    current, olds = pods[0], pods[1:]
    done = current.replicas == policy.desired and current.ready >= policy.desired
    return RolloutProgress.DONE if done and not any(old.replicas for old in olds) else RolloutProgress.WAITING


def rollout_policy(
    rollout: Rollout, desired: int, *, frozen: bool = False, in_place: bool = False, trial: bool = False
) -> RolloutPolicy:
    """Return the limits of a rollout. maxSurge rounds up and maxUnavailable rounds down, as in Deployments.

    Percentages are relative to `desired` replicas. `frozen` pauses the rollout as spec.rollout.paused does, `in_place`
    disables the surge because there is no room for it (room.py), and `trial` allows one pod of the new revision.
    maxUnavailable is 0 when left out. If both numbers are 0, one pod may be unavailable, because otherwise no pod could
    ever be replaced.
    """
    surge = 0 if in_place else scaled_amount(rollout.max_surge, desired, round_up=True)
    unavailable = scaled_amount(rollout.max_unavailable or 0, desired, round_up=False)
    # The Deployment controller does the same if both numbers are 0.
    if surge == 0:
        unavailable = max(1, unavailable)
    return RolloutPolicy(desired, surge, min(unavailable, desired), paused=rollout.paused or frozen, trial=trial)


def scaled_amount(amount: int | str, desired: int, *, round_up: bool) -> int:
    """Return a limit of the rollout planner as a number of pods, from a number or a percentage such as "25%"."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.removesuffix("%")) * desired
    return -(-hundredths // 100) if round_up else hundredths // 100
