"""The rollout planner: computes the next scale step from the replicas and ready pods of all revisions.

No progress is stored. Every reconcile derives the next step from the observed state. Therefore the rollout continues
correctly after the operator was killed. The planner handles several old revisions at the same time, changes of
`replicas` during a rollout, failed old pods that hold cards, old pods that are unavailable for a moment and must be
kept, and a maximum that is below the current number of pods.

A new revision is on trial until its first pod, the canary, is ready. During the trial the canary is its only pod, and
old pods are removed only if the canary needs their place.

The rules apply in this order. The sum of all revisions never exceeds replicas + maxSurge. Old pods that were never
ready are removed immediately, because they serve no traffic. Other old pods are removed only while the remaining old
pods plus the ready new pods are at least replicas - maxUnavailable. As in the ReplicaSet controller, unready pods are
removed first.

`rollout_policy` calculates these numbers from the spec.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_operator.api.v1alpha1.scaling import Rollout


@dataclass(frozen=True)
class RevisionPodCounts:
    """The pod counts of one revision for the rollout planner.

    `replicas` are the replicas of the ReplicaSet, `ready` are the pods that are ready now, and `served` are the pods
    that are or were ready. `unplaced` pods have no node or could not be created. If a revision has `failed`, it gets no
    more pods while the rollout is paused, because they would fail too. A `forbidden` revision never gets more pods.
    """

    name: str
    number: int
    replicas: int
    ready: int = 0
    served: int = 0
    unplaced: int = 0
    failed: bool = False
    forbidden: bool = False

    def scaled_to(self, replicas: int | None = None) -> "RevisionPodCounts":
        """Return the counts after scaling to `replicas`. The ReplicaSet controller removes unready pods first."""
        desired = self.replicas if replicas is None else replicas
        ready = min(self.ready, desired)
        return replace(self, replicas=desired, ready=ready, served=min(max(self.served, ready), desired))


@dataclass(frozen=True)
class RolloutPolicy:
    """The limits of a rollout for the planner, as numbers of pods.

    During a `trial`, the canary is the only pod of the new revision.
    """

    desired: int
    max_surge: int
    max_unavailable: int
    paused: bool = False
    trial: bool = False

    @property
    def min_available_pods(self) -> int:
        """The minimum number of available pods during a rollout."""
        return max(0, self.desired - self.max_unavailable)

    @property
    def max_pods(self) -> int:
        """The maximum number of pods of all revisions. Terminating pods do not count."""
        return self.desired + self.max_surge


class RolloutProgress(StrEnum):
    """The progress of a rollout after the planner's next step: done, moving, waiting or paused."""

    DONE = "Done"
    MOVING = "Moving"
    WAITING = "Waiting"
    PAUSED = "Paused"


@dataclass(frozen=True)
class ReplicaChange:
    """A scale step of the rollout planner: the new number of replicas for the workload of one revision."""

    revision: str
    replicas: int


@dataclass(frozen=True)
class RolloutStep:
    """The next step that the rollout planner has computed: the progress and the workloads to scale.

    `scales` has entries if the rollout is moving, or if it is paused and the desired replicas have changed. Otherwise
    it is empty.
    """

    progress: RolloutProgress
    scales: tuple[ReplicaChange, ...] = ()


def next_rollout_step(
    current: RevisionPodCounts, olds: Sequence[RevisionPodCounts], policy: RolloutPolicy, ending: int = 0
) -> RolloutStep:
    """Return the next step towards `policy.desired` ready pods of `current` and no pods of `olds`.

    `ending` is the number of terminating pods. Without a surge, a new pod must wait until these pods are gone, because
    they hold the cards. With a surge, the same step removes old pods and adds new pods. Removals are written first.
    """
    before = [current.scaled_to(), *(old.scaled_to() for old in sorted(olds, key=lambda old: old.number))]
    if policy.paused and any(old.replicas for old in olds):
        return RolloutStep(RolloutProgress.PAUSED, _replica_changes(before, _scale_while_paused(before, policy)))
    # Changes that free room precede changes that need room. Each change starts from the pod counts after the previous
    # change.
    planned = [_remove_unplaced_pods(before, current.unplaced, policy), *before[1:]]
    retired = [planned[0], *_remove_old_pods(planned, policy)]
    after = [_add_new_pods(retired if policy.max_surge else planned, policy, ending), *retired[1:]]
    found = _replica_changes(before, _remove_surplus_pods(after, policy))
    return (
        RolloutStep(RolloutProgress.MOVING, found) if found else RolloutStep(_progress_without_changes(before, policy))
    )


def _remove_unplaced_pods(pods: Sequence[RevisionPodCounts], unplaced: int, policy: RolloutPolicy) -> RevisionPodCounts:
    """Remove new pods without a node if there are too many pods. These pods have not started their warm-up."""
    excess = sum(each.replicas for each in pods) - policy.max_pods
    return pods[0].scaled_to(pods[0].replicas - max(0, min(excess, unplaced)))


def _add_new_pods(pods: Sequence[RevisionPodCounts], policy: RolloutPolicy, ending: int) -> RevisionPodCounts:
    current = pods[0]
    # Terminating pods hold their cards until they are gone. Subtract them only without a surge, because a surge allows
    # new pods next to old pods.
    room = policy.max_pods - sum(each.replicas for each in pods) - (0 if policy.max_surge else ending)
    desired = min(policy.desired, _max_new_pods(current, policy), current.replicas + max(0, room))
    return current.scaled_to(desired)


def _max_new_pods(current: RevisionPodCounts, policy: RolloutPolicy) -> int:
    if current.forbidden or (current.failed and policy.paused):
        return current.replicas
    # Keep existing pods. If the gate of the canary closes, a revision with several pods is on trial again.
    return max(1, current.replicas) if policy.trial else policy.desired


def _remove_old_pods(pods: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> list[RevisionPodCounts]:
    current, olds = pods[0].scaled_to(min(pods[0].replicas, policy.desired)), pods[1:]
    # Remove old pods that were never ready. They serve no traffic, and may hold the cards that new pods need.
    olds = [old.scaled_to(old.served) for old in olds]
    spare = sum(old.served for old in olds) + current.ready - policy.min_available_pods
    if policy.trial:
        # During the trial, the canary does not count as available.
        spare = min(spare - current.ready, _count_trial_removals(current, olds, policy))
    return _remove_pods(_remove_pods(olds, spare, keep_ready=True), spare - _count_unready_pods(olds), keep_ready=False)


def _count_trial_removals(current: RevisionPodCounts, olds: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> int:
    """Return how many old pods to remove during a trial: surplus pods and pods whose place the canary needs."""
    old = sum(each.replicas for each in olds)
    return max(old - policy.desired, old + max(min(1, policy.desired), current.replicas) - policy.max_pods)


def _count_unready_pods(pods: Sequence[RevisionPodCounts]) -> int:
    return sum(each.replicas - each.ready for each in pods)


def _remove_pods(pods: Sequence[RevisionPodCounts], count: int, *, keep_ready: bool) -> list[RevisionPodCounts]:
    """Remove up to `count` pods, starting with the first revision. With `keep_ready`, remove only unready pods."""
    left = []
    for each in pods:
        may_go = each.replicas - each.ready if keep_ready else each.replicas
        taken = max(0, min(count, may_go))
        count -= taken
        left.append(each.scaled_to(each.replicas - taken))
    return left


def _remove_surplus_pods(pods: list[RevisionPodCounts], policy: RolloutPolicy) -> list[RevisionPodCounts]:
    """Remove unready new pods if the number of pods exceeds the maximum. A later step creates them."""
    excess = sum(each.replicas for each in pods) - policy.max_pods
    return [*_remove_pods(pods[:1], excess, keep_ready=True), *pods[1:]]


def _scale_while_paused(pods: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> list[RevisionPodCounts]:
    """Keep the desired number of pods while the rollout is paused. Revisions are not replaced."""
    total = sum(each.replicas for each in pods)
    most = policy.desired + min(policy.max_surge, pods[0].replicas)
    if total < policy.desired:
        # Scale up the revision with the most ready pods, but no failed revision, because its new pods would fail too.
        proven = (each for each in pods if each.replicas and not each.failed and not each.forbidden)
        grown = max(proven, key=lambda each: (each.ready, each.replicas, each.number), default=None)
        return [each.scaled_to(each.replicas + policy.desired - total) if each is grown else each for each in pods]
    excess = max(0, total - most)
    kept = _remove_pods(pods, excess, keep_ready=True)
    return _remove_pods(kept, excess - (total - sum(each.replicas for each in kept)), keep_ready=False)


def _replica_changes(
    before: Sequence[RevisionPodCounts], after: Sequence[RevisionPodCounts]
) -> tuple[ReplicaChange, ...]:
    pairs = zip(before, after, strict=True)
    return tuple(ReplicaChange(old.name, new.replicas) for old, new in pairs if old.replicas != new.replicas)


def _progress_without_changes(pods: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> RolloutProgress:
    """Return the progress of a rollout without a pending scale change."""
    current, olds = pods[0], pods[1:]
    done = current.replicas == policy.desired and current.ready >= policy.desired
    return RolloutProgress.DONE if done and not any(old.replicas for old in olds) else RolloutProgress.WAITING


def rollout_policy(
    rollout: Rollout, desired: int, *, frozen: bool = False, in_place: bool = False, trial: bool = False
) -> RolloutPolicy:
    """Return the limits of a rollout. As in Deployments, maxSurge is rounded up and maxUnavailable is rounded down.

    Percentages are relative to `desired` replicas. `frozen` pauses the rollout like spec.rollout.paused. `in_place`
    disables the surge, because there is no room for it (room.py). `trial` limits the new revision to one pod. The
    default of maxUnavailable is 0. If both numbers are 0, one pod may be unavailable. Otherwise no pod could be
    replaced.
    """
    surge = 0 if in_place else resolve_pod_count(rollout.max_surge, desired, round_up=True)
    unavailable = resolve_pod_count(rollout.max_unavailable or 0, desired, round_up=False)
    # If both numbers are 0, no pod can be replaced. The Deployment controller also uses 1 in this case.
    if surge == 0:
        unavailable = max(1, unavailable)
    return RolloutPolicy(desired, surge, min(unavailable, desired), paused=rollout.paused or frozen, trial=trial)


def resolve_pod_count(amount: int | str, desired: int, *, round_up: bool) -> int:
    """Return a rollout limit as a number of pods. `amount` is a number or a percentage such as "25%"."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.removesuffix("%")) * desired
    return -(-hundredths // 100) if round_up else hundredths // 100
