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

    `replicas` is the desired number. During a `trial`, the canary is the only pod of the new revision.
    """

    replicas: int
    max_surge: int
    max_unavailable: int
    paused: bool = False
    trial: bool = False

    @property
    def min_available_pods(self) -> int:
        """The minimum number of available pods during a rollout."""
        return max(0, self.replicas - self.max_unavailable)

    @property
    def max_pods(self) -> int:
        """The maximum number of pods of all revisions. Terminating pods do not count."""
        return self.replicas + self.max_surge


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

    `changes` has entries if the rollout is moving, or if it is paused and the desired replicas have changed. Otherwise
    it is empty.
    """

    progress: RolloutProgress
    changes: tuple[ReplicaChange, ...] = ()


def next_rollout_step(
    current: RevisionPodCounts, old_counts: Sequence[RevisionPodCounts], policy: RolloutPolicy, ending_pods: int = 0
) -> RolloutStep:
    """Return the next step towards `policy.replicas` ready pods of `current` and no pods of `old_counts`.

    `ending_pods` is the number of terminating pods. Without a surge, a new pod must wait until these pods are gone,
    because they hold the cards. With a surge, the same step removes old pods and adds new pods. Removals are written
    first.
    """
    before = [current.scaled_to(), *(old.scaled_to() for old in sorted(old_counts, key=lambda old: old.number))]
    if policy.paused and any(old.replicas for old in old_counts):
        return RolloutStep(RolloutProgress.PAUSED, _replica_changes(before, _scale_while_paused(before, policy)))
    # Changes that free room precede changes that need room. Each change starts from the pod counts after the previous
    # change.
    planned = [_remove_unplaced_pods(before, current.unplaced, policy), *before[1:]]
    after_removals = [planned[0], *_remove_old_pods(planned, policy)]
    after = [_add_new_pods(after_removals if policy.max_surge else planned, policy, ending_pods), *after_removals[1:]]
    changes = _replica_changes(before, _remove_surplus_pods(after, policy))
    if changes:
        return RolloutStep(RolloutProgress.MOVING, changes)
    return RolloutStep(_progress_without_changes(before, policy))


def _remove_unplaced_pods(
    pod_counts: Sequence[RevisionPodCounts], unplaced: int, policy: RolloutPolicy
) -> RevisionPodCounts:
    """Remove new pods without a node if there are too many pods. These pods have not started their warm-up."""
    excess = sum(counts.replicas for counts in pod_counts) - policy.max_pods
    return pod_counts[0].scaled_to(pod_counts[0].replicas - max(0, min(excess, unplaced)))


def _add_new_pods(
    pod_counts: Sequence[RevisionPodCounts], policy: RolloutPolicy, ending_pods: int
) -> RevisionPodCounts:
    current = pod_counts[0]
    # Terminating pods hold their cards until they are gone. Subtract them only without a surge, because a surge allows
    # new pods next to old pods.
    room = policy.max_pods - sum(counts.replicas for counts in pod_counts) - (0 if policy.max_surge else ending_pods)
    replicas = min(policy.replicas, _max_new_pods(current, policy), current.replicas + max(0, room))
    return current.scaled_to(replicas)


def _max_new_pods(current: RevisionPodCounts, policy: RolloutPolicy) -> int:
    if current.forbidden or (current.failed and policy.paused):
        return current.replicas
    # Keep existing pods. If the gate of the canary closes, a revision with several pods is on trial again.
    return max(1, current.replicas) if policy.trial else policy.replicas


def _remove_old_pods(pod_counts: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> list[RevisionPodCounts]:
    current, old_counts = pod_counts[0].scaled_to(min(pod_counts[0].replicas, policy.replicas)), pod_counts[1:]
    # Remove old pods that were never ready. They serve no traffic, and may hold the cards that new pods need.
    old_counts = [old.scaled_to(old.served) for old in old_counts]
    spare = sum(old.served for old in old_counts) + current.ready - policy.min_available_pods
    if policy.trial:
        # During the trial, the canary does not count as available.
        spare = min(spare - current.ready, _count_trial_removals(current, old_counts, policy))
    remaining = _remove_pods(old_counts, spare, keep_ready=True)
    return _remove_pods(remaining, spare - _count_unready_pods(old_counts), keep_ready=False)


def _count_trial_removals(
    current: RevisionPodCounts, old_counts: Sequence[RevisionPodCounts], policy: RolloutPolicy
) -> int:
    """Return how many old pods to remove during a trial: surplus pods and pods whose place the canary needs."""
    old_pods = sum(counts.replicas for counts in old_counts)
    return max(old_pods - policy.replicas, old_pods + max(min(1, policy.replicas), current.replicas) - policy.max_pods)


def _count_unready_pods(pod_counts: Sequence[RevisionPodCounts]) -> int:
    return sum(counts.replicas - counts.ready for counts in pod_counts)


def _remove_pods(pod_counts: Sequence[RevisionPodCounts], count: int, *, keep_ready: bool) -> list[RevisionPodCounts]:
    """Remove up to `count` pods, starting with the first revision. With `keep_ready`, remove only unready pods."""
    remaining = []
    for revision in pod_counts:
        removable = revision.replicas - revision.ready if keep_ready else revision.replicas
        removed = max(0, min(count, removable))
        count -= removed
        remaining.append(revision.scaled_to(revision.replicas - removed))
    return remaining


def _remove_surplus_pods(pod_counts: list[RevisionPodCounts], policy: RolloutPolicy) -> list[RevisionPodCounts]:
    """Remove unready new pods if the number of pods exceeds the maximum. A later step creates them."""
    excess = sum(counts.replicas for counts in pod_counts) - policy.max_pods
    return [*_remove_pods(pod_counts[:1], excess, keep_ready=True), *pod_counts[1:]]


def _scale_while_paused(pod_counts: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> list[RevisionPodCounts]:
    """Keep the desired number of pods while the rollout is paused. Revisions are not replaced."""
    total = sum(counts.replicas for counts in pod_counts)
    max_total = policy.replicas + min(policy.max_surge, pod_counts[0].replicas)
    if total < policy.replicas:
        # Scale up the revision with the most ready pods, but no failed revision, because its new pods would fail too.
        candidates = (counts for counts in pod_counts if counts.replicas and not counts.failed and not counts.forbidden)
        target = max(candidates, key=lambda counts: (counts.ready, counts.replicas, counts.number), default=None)
        missing = policy.replicas - total
        return [counts.scaled_to(counts.replicas + missing) if counts is target else counts for counts in pod_counts]
    excess = max(0, total - max_total)
    remaining = _remove_pods(pod_counts, excess, keep_ready=True)
    return _remove_pods(remaining, excess - (total - sum(counts.replicas for counts in remaining)), keep_ready=False)


def _replica_changes(
    before: Sequence[RevisionPodCounts], after: Sequence[RevisionPodCounts]
) -> tuple[ReplicaChange, ...]:
    pairs = zip(before, after, strict=True)
    return tuple(ReplicaChange(old.name, new.replicas) for old, new in pairs if old.replicas != new.replicas)


def _progress_without_changes(pod_counts: Sequence[RevisionPodCounts], policy: RolloutPolicy) -> RolloutProgress:
    """Return the progress of a rollout without a pending scale change."""
    current, old_counts = pod_counts[0], pod_counts[1:]
    done = current.replicas == policy.replicas and current.ready >= policy.replicas
    return RolloutProgress.DONE if done and not any(old.replicas for old in old_counts) else RolloutProgress.WAITING


def rollout_policy(
    rollout: Rollout, replicas: int, *, frozen: bool = False, in_place: bool = False, trial: bool = False
) -> RolloutPolicy:
    """Return the limits of a rollout. As in Deployments, maxSurge is rounded up and maxUnavailable is rounded down.

    Percentages are relative to `replicas`. `frozen` pauses the rollout like spec.rollout.paused. `in_place`
    disables the surge, because there is no room for it (room.py). `trial` limits the new revision to one pod. The
    default of maxUnavailable is 0. If both numbers are 0, one pod may be unavailable. Otherwise no pod could be
    replaced.
    """
    surge = 0 if in_place else resolve_pod_count(rollout.max_surge, replicas, round_up=True)
    unavailable = resolve_pod_count(rollout.max_unavailable or 0, replicas, round_up=False)
    # If both numbers are 0, no pod can be replaced. The Deployment controller also uses 1 in this case.
    if surge == 0:
        unavailable = max(1, unavailable)
    return RolloutPolicy(replicas, surge, min(unavailable, replicas), paused=rollout.paused or frozen, trial=trial)


def resolve_pod_count(amount: int | str, replicas: int, *, round_up: bool) -> int:
    """Return a rollout limit as a number of pods. `amount` is a number or a percentage such as "25%"."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.removesuffix("%")) * replicas
    return -(-hundredths // 100) if round_up else hundredths // 100
