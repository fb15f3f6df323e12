"""Scale-down by deletion costs: selects the pods whose removal loses least (docs/how-to/scaling.md).

The ReplicaSet controller removes unready pods first, then ready pods with the lowest deletion cost. If the gate of a
pod has just closed, the kubelet still reports the pod as ready. Such a pod therefore also needs a cost.

See docs/how-to/scaling.md, Which pods go. Costs are written only if ready pods must be removed and their losses differ.
A later reconcile lowers the replicas, when the costs are visible on the pods. Written costs stay even if the load
changes, so that a later leader removes the same pods.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.names import REMOVED_FIRST
from gaudi_operator.core.pods.pod_progress import captured_progress_percent
from gaudi_operator.core.pods.pod_view import PodView

SEEN_SECONDS = 0.2
"""Seconds between the writes of costs and replicas. The ReplicaSet controller reads them by separate watches."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def scale_down_costs(pods: Iterable[PodView], replicas: Mapping[str, int]) -> list[SetDeletionCost]:
    """Return the deletion costs to set or reset, so that a scale-down to `replicas` removes the right pods."""
    pods_by_revision: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if pod.is_active and pod.revision in replicas and pod.ordinal is None:  # groups have no costs
            pods_by_revision[pod.revision].append(pod)
    return [
        cost
        for revision, revision_pods in pods_by_revision.items()
        for cost in _revision_deletion_costs(revision_pods, replicas[revision])
    ]


def defer_scale_down(
    replicas: Mapping[str, int], live_replicas: Mapping[str, int], costs: Iterable[SetDeletionCost]
) -> dict[str, int]:
    """Return `replicas` by revision, or `live_replicas` while deletion costs are not visible on the pods.

    Scale-ups that need the room of a deferred scale-down are deferred, too.
    """
    revisions = {cost.revision for cost in costs if cost.removed_first}
    deferred_replicas = {
        name: max(replicas[name], live_replicas[name]) for name in revisions & replicas.keys() & live_replicas.keys()
    }
    missing = sum(count - replicas[name] for name, count in deferred_replicas.items())
    return {
        name: _reduce_scale_up(missing, count, live_replicas.get(name, 0))
        for name, count in {**replicas, **deferred_replicas}.items()
    }


def _reduce_scale_up(missing: int, new_count: int, live_count: int) -> int:
    return max(new_count - missing, min(new_count, live_count))


def count_scale_down_removals(pods: Iterable[PodView], replicas: Mapping[str, int]) -> int:
    """Return how many serving pods the workload controllers may still remove to reach the written `replicas`.

    A ReplicaSet controller may remove any of several equal pods. A LeaderWorkerSet controller removes the highest
    ordinals.
    """
    pods_by_revision: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if pod.is_active:
            pods_by_revision[pod.revision].append(pod)
    return sum(
        _count_serving_removals(revision_pods, replicas.get(revision, 0))
        for revision, revision_pods in pods_by_revision.items()
    )


def _count_serving_removals(active: Sequence[PodView], replicas: int) -> int:
    serving = [pod for pod in active if pod.is_ready]
    if any(pod.ordinal is not None for pod in active):
        return sum(pod.ordinal is not None and pod.ordinal >= replicas for pod in serving)
    earlier_removals = sum(
        not pod.is_ready and (not _is_reported_ready(pod) or pod.deletion_cost == REMOVED_FIRST) for pod in active
    )
    return min(len(serving), max(0, len(active) - replicas - earlier_removals))


def scale_down_candidates(ready_pods: Sequence[PodView], count: int) -> list[PodView]:
    """Return the `count` ready pods whose removal loses least, or no pods if all losses are equal."""
    # If all losses are equal, choose no pods. Each chosen pod would need a request that writes its deletion cost, and
    # the step would be one reconcile later.
    if not 0 < count < len(ready_pods) or len({_removal_loss(pod) for pod in ready_pods}) == 1:
        return []
    return sorted(ready_pods, key=lambda pod: (_removal_loss(pod), -_ready_since(pod).timestamp(), pod.name))[:count]


def _revision_deletion_costs(active: Sequence[PodView], replicas: int) -> Iterable[SetDeletionCost]:
    # Use the Ready condition, because the ReplicaSet controller reads this condition. It becomes False only after the
    # gate has closed.
    ready_pods = [pod for pod in active if _is_reported_ready(pod)]
    candidates = scale_down_candidates(ready_pods, len(ready_pods) - replicas)
    for pod in active:
        if pod in candidates and pod.deletion_cost != REMOVED_FIRST:
            yield SetDeletionCost(
                pod.name, pod.uid, pod.revision, True, f"it is removed first: {_why_removed_first(pod)}"
            )
        elif pod.deletion_cost == REMOVED_FIRST and (replicas >= len(active) or (candidates and pod not in candidates)):
            yield SetDeletionCost(pod.name, pod.uid, pod.revision, False, "it is no longer removed")


def _is_reported_ready(pod: PodView) -> bool:
    return "Ready" in pod.conditions and pod.conditions["Ready"].is_true


def _removal_loss(pod: PodView) -> tuple[bool, int, int, int]:
    """Return the loss of removing a pod: (takes traffic, existing cost, requests in powers of two, captured percent).

    If its gate has just closed, a pod receives no traffic although the kubelet still reports it as ready.
    """
    report = pod.report
    if report is None:
        return pod.is_ready, pod.deletion_cost, 1, 0
    captured = [captured_progress_percent(phase) for phase in (report.prompt, report.decode)]
    percents = [percent for percent in captured if percent is not None]
    # Compare the number of requests by powers of two, so that the choice does not change with each request.
    return pod.is_ready, pod.deletion_cost, report.requests.running.bit_length(), min(percents, default=100)


def _ready_since(pod: PodView) -> datetime:
    return pod.conditions["Ready"].since or _LONG_AGO


def _why_removed_first(pod: PodView) -> str:
    if not pod.is_ready:
        return "its gate has closed"
    if pod.report is None:
        return "it has not reported"
    return f"{pod.report.requests.running} requests run there"
