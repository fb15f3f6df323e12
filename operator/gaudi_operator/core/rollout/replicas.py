"""The replicas of the workloads of all revisions (ReplicaSets and LeaderWorkerSets), as observed and as written."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import DESIRED_ANNOTATION
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.backoff import limit_for_back_off
from gaudi_operator.core.rollout.live_workloads import live_workloads
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.scale_down import SEEN_SECONDS, defer_scale_down, deletion_costs
from gaudi_operator.core.rollout.scale_step import RevisionPodCounts
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import parse_int32

OVERDUE_SECONDS = 10
"""The seconds that a kubelet may need after a pod's grace period to report the end of the pod."""


def count_pods(
    current: Revision,
    stored: Iterable[Revision],
    observed: Observed,
    pods: Iterable[PodView],
    forbidden: Collection[str] = (),
    fallback: Revision | None = None,
) -> tuple[RevisionPodCounts, list[RevisionPodCounts]]:
    """Return (counts of the current revision, counts of each older revision with a workload).

    `forbidden` revisions get no more pods. The `fallback` revision is counted even if it has no workload.
    """
    revisions = {revision.name: revision for revision in (*stored, current)}
    fallback_name = fallback.name if fallback else current.name
    replicas_by_name = {current.name: 0, fallback_name: 0, **full_replicas_by_revision(observed)}
    active = [pod for pod in pods if pod.is_active]
    counts_by_name = {
        name: replace(
            _count_revision_pods(name, revisions.get(name), replicas, [pod for pod in active if pod.revision == name]),
            forbidden=name in forbidden,
            fallback=fallback is not None and name == fallback.name,
        )
        for name, replicas in replicas_by_name.items()
    }
    current_counts = counts_by_name.pop(current.name)
    return current_counts, [_adjust_group_counts(old, active) for old in counts_by_name.values()]


def _count_revision_pods(name: str, revision: Revision | None, replicas: int, pods: list[PodView]) -> RevisionPodCounts:
    return RevisionPodCounts(
        name=name,
        number=revision.number if revision else 0,
        replicas=replicas,
        ready=sum(pod.is_ready for pod in pods),
        served=sum(pod.has_gate_condition for pod in pods),
        unplaced=max(0, replicas - sum(pod.is_scheduled for pod in pods)),
        failed=revision is not None and revision.failure is not None,
    )


def _adjust_group_counts(counts: RevisionPodCounts, active: Iterable[PodView]) -> RevisionPodCounts:
    """Adjust the counts of a LeaderWorkerSet, which removes groups in descending order of their ordinals."""
    leaders = [pod for pod in active if pod.revision == counts.name and pod.ordinal is not None]
    if not leaders:
        return counts
    # The LeaderWorkerSet controller removes the group with the highest ordinal first, even if this group is ready.
    ready, served = (
        _highest_ordinal_count(leaders, lambda pod: pod.is_ready),
        _highest_ordinal_count(leaders, lambda pod: pod.has_gate_condition),
    )
    return replace(counts, ready=min(ready, counts.replicas), served=min(served, counts.replicas))


def _highest_ordinal_count(leaders: Iterable[PodView], predicate: Callable[[PodView], bool]) -> int:
    return max((1 + (pod.ordinal or 0) for pod in leaders if predicate(pod)), default=0)


def count_ending_pods(pods: Sequence[PodView], observed: Observed, deadlines: Deadlines) -> int:
    """Return the number of pods that are terminating or exceed the written replicas.

    A terminating pod is not counted if its grace period ended more than OVERDUE_SECONDS ago, because its node is lost.
    """
    replicas = full_replicas_by_revision(observed)
    ending = sum(
        pod.terminating
        and pod.deletion_time is not None
        and not deadlines.has_passed(pod.deletion_time, OVERDUE_SECONDS)
        for pod in pods
    )
    active_counts = Counter(pod.revision for pod in pods if pod.is_active)
    return ending + sum(max(0, count - replicas.get(name, 0)) for name, count in active_counts.items())


def full_replicas_by_revision(observed: Observed) -> dict[str, int]:
    """Return the full replicas of each revision's workload, which apply after a back-off."""
    return {name: full_replicas(workload) for name, workload in live_workloads(observed).items()}


def spec_replicas_by_revision(observed: Observed) -> dict[str, int]:
    """Return spec.replicas of each revision's workload. A back-off reduces this number."""
    return {name: int(workload["spec"].get("replicas", 1)) for name, workload in live_workloads(observed).items()}


def full_replicas(workload: Manifest) -> int:
    """Return the replicas of one workload without the reduction by a back-off."""
    # A back-off reduces `spec.replicas`. The annotation keeps the full number, so that a back-off does not look like a
    # scale-down.
    replicas = parse_int32((workload["metadata"].get("annotations") or {}).get(DESIRED_ANNOTATION))
    return replicas if replicas is not None and replicas >= 0 else int(workload["spec"].get("replicas", 1))


@dataclass(frozen=True)
class PlannedReplicas:
    """The replicas to write to the workloads. `full_replicas` applies without back-offs, and `replicas` with back-offs.

    `costs` are the deletion costs that select the pods to remove first.
    """

    costs: Sequence[SetDeletionCost] = ()
    full_replicas: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)


def plan_replicas(state: State) -> PlannedReplicas:
    """Return the replicas to write to each workload after the rollout step.

    Without a current revision, the replicas stay unchanged.
    """
    current, step, live_replicas = state.rollout.current, state.rollout.step, full_replicas_by_revision(state.observed)
    planned = dict(live_replicas)
    if current is not None and step is not None:
        planned = {current.name: 0, **live_replicas, **{change.revision: change.replicas for change in step.changes}}
    # The ReplicaSet controller removes the pods with the lowest deletion cost. Therefore write the costs before the
    # replicas.
    costs = deletion_costs(state.pods, planned)
    if costs:
        state.deadlines.schedule_requeue(SEEN_SECONDS)
    desired = defer_scale_down(planned, live_replicas, costs)
    return PlannedReplicas(costs, desired, limit_for_back_off(desired, state.pods, state.failures, state.deadlines))
