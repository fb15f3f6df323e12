"""The rollout planner: computes the next scale step from the replicas and ready pods of all revisions.

No progress is stored. Every reconcile derives the next step from the observed state. Therefore the rollout continues
correctly after the operator was killed. The planner handles several old revisions at the same time, changes of
`replicas` during a rollout, failed old pods that hold cards, old pods that are unavailable for a moment and must be
kept, and a maximum that is below the current number of pods.

A new revision is on trial until its first pod, the canary, is ready. During the trial the canary is its only pod. Old
pods are removed only if the canary needs their place, and a scale-up adds old pods.

The rules apply in this order. The sum of all revisions never exceeds replicas + maxSurge. Pods that were never ready
are removed immediately if no pod of their old revision is ready. Other old pods are removed only while the remaining
old pods plus the ready new pods are at least replicas - maxUnavailable. As in the ReplicaSet controller, unready pods
are removed first.

A paused rollout replaces no pods. A scale-up adds pods of the last good revision, even if this revision has no pods
left after a scale-down to 0. Pods of failed revisions and the canary are kept for inspection.

`rollout_step_limits` calculates these numbers from the spec.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_operator.api.v1alpha1.rollout import Rollout, RolloutType


@dataclass(frozen=True)
class RolloutStepPodCounts:
    """The pod counts of one revision for the rollout planner.

    `replicas` are the replicas of the ReplicaSet, `ready` are the pods that are ready now, and `served` are the pods
    that are or were ready. `unplaced` pods have no node or could not be created. If a revision has `failed`, it gets no
    more pods while a good revision exists, because they would fail too. A `forbidden` revision never gets more pods.
    The `fallback` revision is the last good one, to which a rollback would return.
    """

    name: str
    number: int
    replicas: int
    ready: int = 0
    served: int = 0
    unplaced: int = 0
    failed: bool = False
    forbidden: bool = False
    fallback: bool = False

    @property
    def expected(self) -> int:
        """The pods that serve traffic or will soon.

        If the revision serves, its new pods with a node are warming up. If no pod is ready, pods that were never ready
        probably cannot become ready, and may hold the cards that pods of another revision need.
        """
        return max(self.served, self.replicas - self.unplaced) if self.ready and not self.failed else self.served

    def scaled_to(self, replicas: int | None = None) -> "RolloutStepPodCounts":
        """Return the counts after scaling to `replicas`. The ReplicaSet controller removes unready pods first."""
        desired = self.replicas if replicas is None else replicas
        ready = min(self.ready, desired)
        return replace(self, replicas=desired, ready=ready, served=min(max(self.served, ready), desired))


@dataclass(frozen=True)
class RolloutStepLimits:
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


class RolloutStepProgress(StrEnum):
    """The progress of a rollout after the planner's next step: done, moving, waiting or paused."""

    DONE = "Done"
    MOVING = "Moving"
    WAITING = "Waiting"
    PAUSED = "Paused"


@dataclass(frozen=True)
class _ReplicaChange:
    """A scale step of the rollout planner: the new number of replicas for the workload of one revision."""

    revision: str
    replicas: int


@dataclass(frozen=True)
class RolloutStep:
    """The next step that the rollout planner has computed: the progress and the workloads to scale.

    `changes` has entries if the rollout is moving, or if it is paused and the desired replicas have changed. Otherwise
    it is empty.
    """

    progress: RolloutStepProgress
    changes: tuple[_ReplicaChange, ...] = ()


def next_rollout_step(
    current: RolloutStepPodCounts,
    old_counts: Sequence[RolloutStepPodCounts],
    policy: RolloutStepLimits,
    ending_pods: int = 0,
) -> RolloutStep:
    """Return the next step towards `policy.replicas` ready pods of `current` and no pods of `old_counts`.

    `ending_pods` is the number of terminating pods. Without a surge, a new pod must wait until these pods are gone,
    because they hold the cards. With a surge, the same step removes old pods and adds new pods. Removals are written
    first.
    """
    # Pods of the last good revision are removed last, because a rollback would need them.
    oldest_first = sorted(old_counts, key=lambda old: (old.fallback, old.number))
    before = [current.scaled_to(), *(old.scaled_to() for old in oldest_first)]
    # Terminating pods hold their cards until they are gone. A surge allows new pods next to them.
    ending_pods = 0 if policy.max_surge else ending_pods
    if policy.paused and policy.replicas and any(old.replicas or old.fallback for old in old_counts):
        after = _scale_while_paused(before, policy, ending_pods)
        return RolloutStep(RolloutStepProgress.PAUSED, _replica_changes(before, after))
    # Changes that free room precede changes that need room. Each change starts from the pod counts after the previous
    # change.
    planned = [_remove_unplaced_pods(before, current.unplaced, policy), *before[1:]]
    scaled = [planned[0], *_scale_old_pods(planned, policy, ending_pods)]
    # Without a surge, the old pods that this step removes still hold their cards.
    holding = scaled if policy.max_surge else [max(pair, key=_replicas) for pair in zip(planned, scaled, strict=True)]
    after = [_add_new_pods(holding, policy, ending_pods), *scaled[1:]]
    changes = _replica_changes(before, _remove_surplus_pods(after, policy))
    if changes:
        return RolloutStep(RolloutStepProgress.MOVING, changes)
    return RolloutStep(_progress_without_changes(before, policy))


def _remove_unplaced_pods(
    pod_counts: Sequence[RolloutStepPodCounts], unplaced: int, policy: RolloutStepLimits
) -> RolloutStepPodCounts:
    """Remove new pods without a node if there are too many pods. These pods have not started their warm-up."""
    excess = _count_replicas(pod_counts) - policy.max_pods
    return pod_counts[0].scaled_to(pod_counts[0].replicas - max(0, min(excess, unplaced)))


def _add_new_pods(
    pod_counts: Sequence[RolloutStepPodCounts], policy: RolloutStepLimits, ending_pods: int
) -> RolloutStepPodCounts:
    current = pod_counts[0]
    room = policy.max_pods - _count_replicas(pod_counts) - ending_pods
    replicas = min(policy.replicas, _max_new_pods(current, policy), current.replicas + max(0, room))
    return current.scaled_to(replicas)


def _max_new_pods(current: RolloutStepPodCounts, policy: RolloutStepLimits) -> int:
    if current.forbidden:
        return current.replicas
    # Keep existing pods. If the gate of the canary closes, a revision with several pods is on trial again.
    return max(1, current.replicas) if policy.trial else policy.replicas


def _scale_old_pods(
    pod_counts: Sequence[RolloutStepPodCounts], policy: RolloutStepLimits, ending_pods: int
) -> list[RolloutStepPodCounts]:
    """Remove old pods that are no longer needed. During a trial, add old pods if too few are left."""
    current, old_counts = pod_counts[0].scaled_to(min(pod_counts[0].replicas, policy.replicas)), pod_counts[1:]
    kept = [old.scaled_to(old.expected) for old in old_counts]
    kept_pods = _count_replicas(kept)
    if not policy.trial:
        return _remove_unready_first(kept, kept_pods + current.ready - policy.min_available_pods)
    # During the trial, the canary does not count as available. Old pods leave one place for it.
    needed = min(policy.replicas, policy.max_pods - max(min(1, policy.replicas), current.replicas))
    remaining = _remove_unready_first(kept, kept_pods - max(policy.min_available_pods, needed))
    room = policy.max_pods - current.replicas - ending_pods
    return _add_pods(remaining, min(needed, max(room, _count_replicas(old_counts))) - kept_pods)


def _replicas(counts: RolloutStepPodCounts) -> int:
    return counts.replicas


def _count_replicas(pod_counts: Sequence[RolloutStepPodCounts]) -> int:
    return sum(counts.replicas for counts in pod_counts)


def _add_pods(pod_counts: Sequence[RolloutStepPodCounts], count: int) -> list[RolloutStepPodCounts]:
    """Add `count` pods to the last good revision or, without one, to the revision with the most ready pods."""
    candidates = (
        counts
        for counts in pod_counts
        if (counts.replicas or counts.fallback) and not counts.failed and not counts.forbidden
    )
    target = max(candidates, key=lambda each: (each.fallback, each.ready, each.replicas, each.number), default=None)
    return [each.scaled_to(each.replicas + max(0, count)) if each is target else each for each in pod_counts]


def _remove_unready_first(pod_counts: Sequence[RolloutStepPodCounts], count: int) -> list[RolloutStepPodCounts]:
    remaining = _remove_pods(pod_counts, count, keep_ready=True)
    return _remove_pods(remaining, count - _count_unready_pods(pod_counts), keep_ready=False)


def _count_unready_pods(pod_counts: Sequence[RolloutStepPodCounts]) -> int:
    return sum(counts.replicas - counts.ready for counts in pod_counts)


def _remove_pods(
    pod_counts: Sequence[RolloutStepPodCounts], count: int, *, keep_ready: bool
) -> list[RolloutStepPodCounts]:
    """Remove up to `count` pods, starting with the first revision. With `keep_ready`, remove only unready pods."""
    remaining = []
    for revision in pod_counts:
        removable = revision.replicas - revision.ready if keep_ready else revision.replicas
        removed = max(0, min(count, removable))
        count -= removed
        remaining.append(revision.scaled_to(revision.replicas - removed))
    return remaining


def _remove_surplus_pods(
    pod_counts: list[RolloutStepPodCounts], policy: RolloutStepLimits
) -> list[RolloutStepPodCounts]:
    """Remove unready new pods if the number of pods exceeds the maximum. A later step creates them."""
    excess = _count_replicas(pod_counts) - policy.max_pods
    return [*_remove_pods(pod_counts[:1], excess, keep_ready=True), *pod_counts[1:]]


def _scale_while_paused(
    pod_counts: Sequence[RolloutStepPodCounts], policy: RolloutStepLimits, ending_pods: int
) -> list[RolloutStepPodCounts]:
    """Keep the desired number of pods while the rollout is paused. Revisions are not replaced.

    Pods of failed revisions do not count as replicas, because they serve no traffic.
    """
    current = pod_counts[0]
    working_pods = sum(counts.replicas for counts in pod_counts if not counts.failed)
    unapproved_pods = 0 if current.failed or current.fallback else current.replicas
    missing = policy.replicas - working_pods + (unapproved_pods if policy.trial else 0)
    added = min(missing, policy.max_pods - _count_replicas(pod_counts) - ending_pods)
    if added > 0:
        scaled = _add_pods(pod_counts, added)
        # The revision on trial may itself be the last good one. Its canary is alone until it is ready.
        most = max(1, current.replicas) if policy.trial else scaled[0].replicas
        return [current.scaled_to(min(scaled[0].replicas, most)), *scaled[1:]]
    # Keep failed pods and the canary for inspection.
    kept = [counts.replicas if counts.failed else 0 for counts in pod_counts]
    kept[0] = max(kept[0], min(1, current.replicas))
    removable = [counts.scaled_to(counts.replicas - pods) for counts, pods in zip(pod_counts, kept, strict=True)]
    surge = min(max(policy.max_surge, int(policy.trial)), unapproved_pods)
    # The new pod that replaces a surplus pod may not be ready yet.
    spare_ready_pods = max(0, sum(counts.ready for counts in pod_counts) - policy.min_available_pods)
    removed = min(working_pods - policy.replicas - surge, _count_unready_pods(removable) + spare_ready_pods)
    remaining = _remove_unready_first(removable, removed)
    pairs = zip(pod_counts, remaining, kept, strict=True)
    return [counts.scaled_to(rest.replicas + pods) for counts, rest, pods in pairs]


def _replica_changes(
    before: Sequence[RolloutStepPodCounts], after: Sequence[RolloutStepPodCounts]
) -> tuple[_ReplicaChange, ...]:
    pairs = zip(before, after, strict=True)
    return tuple(_ReplicaChange(old.name, new.replicas) for old, new in pairs if old.replicas != new.replicas)


def _progress_without_changes(
    pod_counts: Sequence[RolloutStepPodCounts], policy: RolloutStepLimits
) -> RolloutStepProgress:
    """Return the progress of a rollout without a pending scale change."""
    current, old_counts = pod_counts[0], pod_counts[1:]
    done = current.replicas == policy.replicas and current.ready >= policy.replicas
    return (
        RolloutStepProgress.DONE
        if done and not any(old.replicas for old in old_counts)
        else RolloutStepProgress.WAITING
    )


def rollout_step_limits(
    rollout: Rollout, replicas: int, *, frozen: bool = False, in_place: bool = False, trial: bool = False
) -> RolloutStepLimits:
    """Return the limits of a rollout. As in Deployments, maxSurge is rounded up and maxUnavailable is rounded down.

    Percentages are relative to `replicas`. `frozen` pauses the rollout like spec.rollout.paused. `in_place`
    disables the surge, because there is no room for it (room.py). `trial` limits the new revision to one pod. The
    default of maxUnavailable is 0. If both numbers are 0, one pod may be unavailable. Otherwise no pod could be
    replaced.
    """
    has_surge = not in_place and rollout.type is not RolloutType.IN_PLACE
    surge = resolve_rollout_step_limit(rollout.max_surge, replicas, round_up=True) if has_surge else 0
    unavailable = resolve_rollout_step_limit(rollout.max_unavailable or 0, replicas, round_up=False)
    # If both numbers are 0, no pod can be replaced. The Deployment controller also uses 1 in this case.
    if surge == 0:
        unavailable = max(1, unavailable)
    return RolloutStepLimits(replicas, surge, min(unavailable, replicas), paused=rollout.paused or frozen, trial=trial)


def resolve_rollout_step_limit(amount: int | str, replicas: int, *, round_up: bool) -> int:
    """Return a rollout limit as a number of pods. `amount` is a number or a percentage such as "25%"."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.removesuffix("%")) * replicas
    return -(-hundredths // 100) if round_up else hundredths // 100
