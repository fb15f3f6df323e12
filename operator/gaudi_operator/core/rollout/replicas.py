"""The replicas of the workloads of all revisions (ReplicaSets and LeaderWorkerSets), as observed and as written."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import DESIRED_ANNOTATION
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.backoff import limit_to_back_off
from gaudi_operator.core.rollout.live_workloads import live_workloads
from gaudi_operator.core.rollout.planner import RevisionPods
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.scale_down import SEEN_SECONDS, defer_scale_down, deletion_costs
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
) -> tuple[RevisionPods, list[RevisionPods]]:
    """Return (counts of the current revision, counts of each older revision with a workload).

    `forbidden` revisions get no more pods.
    """
    known = {revision.name: revision for revision in (*stored, current)}
    desired = {current.name: 0, **written_replicas(observed)}
    active = [pod for pod in pods if pod.active]
    counted = {
        name: replace(
            _counted(name, known.get(name), replicas, [pod for pod in active if pod.revision == name]),
            forbidden=name in forbidden,
        )
        for name, replicas in desired.items()
    }
    mine = counted.pop(current.name)
    return mine, [_held(old, active) for old in counted.values()]


def _counted(name: str, known: Revision | None, replicas: int, pods: list[PodView]) -> RevisionPods:
    return RevisionPods(
        name=name,
        number=known.number if known else 0,
        replicas=replicas,
        ready=sum(pod.ready for pod in pods),
        served=sum(pod.served for pod in pods),
        unplaced=max(0, replicas - sum(pod.placed for pod in pods)),
        failed=known is not None and known.failure is not None,
    )


def _held(old: RevisionPods, active: Iterable[PodView]) -> RevisionPods:
    """Adjust the counts of a LeaderWorkerSet, which removes groups in descending order of their ordinals."""
    groups = [pod for pod in active if pod.revision == old.name and pod.ordinal is not None]
    if not groups:
        return old
    # The LeaderWorkerSet controller removes the group with the highest ordinal first, even if this group is ready.
    ready, served = (_reach(groups, lambda pod: pod.ready), _reach(groups, lambda pod: pod.served))
    return replace(old, ready=min(ready, old.replicas), served=min(served, old.replicas))


def _reach(groups: Iterable[PodView], holds: Callable[[PodView], bool]) -> int:
    return max((1 + (pod.ordinal or 0) for pod in groups if holds(pod)), default=0)


def ending_pods(pods: Sequence[PodView], observed: Observed, deadlines: Deadlines) -> int:
    """Return the number of pods that are terminating or exceed the written replicas.

    A terminating pod is not counted if its grace period ended more than OVERDUE_SECONDS ago, because its node is lost.
    """
    written = written_replicas(observed)
    ending = sum(
        pod.terminating and pod.gone_by is not None and not deadlines.reached(pod.gone_by, OVERDUE_SECONDS)
        for pod in pods
    )
    active = Counter(pod.revision for pod in pods if pod.active)
    return ending + sum(max(0, count - written.get(name, 0)) for name, count in active.items())


def written_replicas(observed: Observed) -> dict[str, int]:
    """Return the full replicas of each revision's workload, which apply after a back-off."""
    return {name: full_replicas(each) for name, each in live_workloads(observed).items()}


def spec_replicas(observed: Observed) -> dict[str, int]:
    """Return spec.replicas of each revision's workload. A back-off reduces this number."""
    return {name: int(each["spec"].get("replicas", 1)) for name, each in live_workloads(observed).items()}


def full_replicas(workload: Manifest) -> int:
    """Return the replicas of one workload without the reduction by a back-off."""
    # A back-off reduces `spec.replicas`. The annotation keeps the full number, so that a back-off does not look like a
    # scale-down.
    kept = parse_int32((workload["metadata"].get("annotations") or {}).get(DESIRED_ANNOTATION))
    return kept if kept is not None and kept >= 0 else int(workload["spec"].get("replicas", 1))


@dataclass(frozen=True)
class PlannedReplicas:
    """The replicas to write to the workloads. `desired` applies without back-offs, and `replicas` with back-offs.

    `costs` are the deletion costs that select the pods to remove first.
    """

    costs: Sequence[SetDeletionCost] = ()
    desired: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)


def plan_replicas(state: State) -> PlannedReplicas:
    """Return the replicas to write to each workload after the rollout step.

    Without a current revision, the replicas stay unchanged.
    """
    current, step, written = state.rollout.current, state.rollout.step, written_replicas(state.observed)
    after = dict(written)
    if current is not None and step is not None:
        after = {current.name: 0, **written, **{each.revision: each.replicas for each in step.scales}}
    # The ReplicaSet controller removes the pods with the lowest deletion cost. Therefore write the costs before the
    # replicas.
    costs = deletion_costs(state.pods, after)
    if costs:
        state.deadlines.requeue(SEEN_SECONDS)
    desired = defer_scale_down(after, written, costs)
    return PlannedReplicas(costs, desired, limit_to_back_off(desired, state.pods, state.failures, state.deadlines))
