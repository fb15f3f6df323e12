"""The workloads of all revisions (ReplicaSets, LeaderWorkerSets), as the rollout counts them and as we write them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import DESIRED_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.notation import whole_number
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.backoff import without_new_pods
from gaudi_operator.core.rollout.planner import RevisionPods
from gaudi_operator.core.rollout.revision import Group, Revision
from gaudi_operator.core.rollout.scale_down import SEEN_SECONDS, deferred, deletion_costs
from gaudi_operator.core.rollout.state import State

OVERDUE_SECONDS = 10
"""What a kubelet may need beyond the grace period of a pod to report its end."""


def live_workloads(observed: Observed) -> dict[str, Manifest]:
    """ReplicaSets and LeaderWorkerSets that are not being deleted, by revision."""
    alive = (each for each in observed.workloads if "deletionTimestamp" not in each["metadata"])
    return {name: each for each in alive if (name := revision_of(each))}


def revision_of(workload: Manifest) -> str:
    """The revision of a workload, by its pods where somebody has taken its label; empty for a stranger's."""
    templates = workload["spec"].get("leaderWorkerTemplate") or workload["spec"]
    pods = templates.get("template") or templates.get("leaderTemplate") or templates.get("workerTemplate") or {}
    labels = (workload["metadata"].get("labels") or {}, (pods.get("metadata") or {}).get("labels") or {})
    return str(next((each[REVISION_LABEL] for each in labels if each.get(REVISION_LABEL)), ""))


def count_pods(
    current: Revision,
    stored: Iterable[Revision],
    observed: Observed,
    pods: Iterable[PodView],
    forbidden: Collection[str] = (),
) -> tuple[RevisionPods, list[RevisionPods]]:
    """Pods of the current revision, and of each older one that has a workload; the `forbidden` get no more."""
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
    """Of groups those with the highest numbers go first, ready or not: whoever stands before a ready one stays too."""
    groups = [pod for pod in active if pod.revision == old.name and pod.ordinal is not None]
    if not groups:
        return old
    # The LeaderWorkerSet controller removes from the end, and does not look at readiness.
    ready, served = (_reach(groups, lambda pod: pod.ready), _reach(groups, lambda pod: pod.served))
    return replace(old, ready=min(ready, old.replicas), served=min(served, old.replicas))


def _reach(groups: Iterable[PodView], holds: Callable[[PodView], bool]) -> int:
    return max((1 + (pod.ordinal or 0) for pod in groups if holds(pod)), default=0)


def ending_pods(pods: Sequence[PodView], observed: Observed, deadlines: Deadlines) -> int:
    """Pods that end within their grace period, and those that are still to be asked to: more than are written.

    One that is overdue is on a node that is lost.
    """
    written = written_replicas(observed)
    ending = sum(
        pod.terminating and pod.gone_by is not None and not deadlines.reached(pod.gone_by, OVERDUE_SECONDS)
        for pod in pods
    )
    active = Counter(pod.revision for pod in pods if pod.active)
    return ending + sum(max(0, count - written.get(name, 0)) for name, count in active.items())


def written_replicas(observed: Observed) -> dict[str, int]:
    """Replicas of each revision's workload as they stand there, or as they will again after a back-off."""
    return {name: full_replicas(each) for name, each in live_workloads(observed).items()}


def wanted_pods(observed: Observed) -> dict[str, int]:
    """Replicas of each revision's workload as its controller sees them: fewer during a back-off."""
    return {name: int(each["spec"].get("replicas", 1)) for name, each in live_workloads(observed).items()}


def full_replicas(workload: Manifest) -> int:
    """Replicas that a workload has, or has again after a back-off."""
    # Without the annotation a back-off would look like a rollout that somebody had scaled to zero.
    kept = whole_number((workload["metadata"].get("annotations") or {}).get(DESIRED_ANNOTATION))
    return kept if kept is not None and kept >= 0 else int(workload["spec"].get("replicas", 1))


@dataclass(frozen=True)
class Scaling:
    """Replicas by revision: `desired` after the step, and `replicas` to write now, fewer while a revision backs off.

    `costs` say first which pods are to go.
    """

    costs: Sequence[SetDeletionCost] = ()
    desired: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)


def scale(state: State) -> Scaling:
    """What the step of the rollout makes of the workloads; they stay as they are where it knows of no revision."""
    current, step, written = state.rollout.current, state.rollout.step, written_replicas(state.observed)
    after = dict(written)
    if current is not None and step is not None:
        after = {current.name: 0, **written, **{each.revision: each.replicas for each in step.scales}}
    # The ReplicaSet controller chooses by the costs that it sees: they must stand before the number goes down.
    costs = deletion_costs(state.pods, after)
    if costs:
        state.deadlines.requeue(SEEN_SECONDS)
    desired = deferred(after, written, costs)
    return Scaling(costs, desired, without_new_pods(desired, state.pods, state.attempts, state.deadlines))


def running_revisions(
    current: Revision, stored: Iterable[Revision], observed: Observed, in_use: set[str]
) -> list[Revision]:
    """The older revisions whose workloads may still have to make pods, and the current one.

    Workloads are written in this order, so that room is made before it is taken. A revision whose ControllerRevision
    was deleted by others is read back from its workload, so that it can be scaled.
    """
    olds = [each for each in with_workloads(stored, observed) if each.name in in_use and each.name != current.name]
    return [*olds, current]


def with_workloads(stored: Iterable[Revision], observed: Observed) -> list[Revision]:
    """The revisions that have a workload, also those whose ControllerRevision is gone."""
    known = {revision.name: revision for revision in stored}
    return [known.get(name) or _read_back(name, each) for name, each in live_workloads(observed).items()]


def _read_back(name: str, workload: Manifest) -> Revision:
    # Its inputs are lost with it: this revision can be scaled, and never rolled out again.
    templates = workload["spec"].get("leaderWorkerTemplate")
    if templates is None:
        return Revision(name, 0, {}, workload["spec"]["template"], "")
    worker = templates["workerTemplate"]
    group = Group(templates.get("size", 1), worker)
    return Revision(name, 0, {}, templates.get("leaderTemplate") or worker, "", group=group)
