"""The workloads of all revisions (ReplicaSets and LeaderWorkerSets) and their replicas, as observed and as written.

A class limits the replicas (limits.maxReplicas and limits.maxCards). The operator does not refuse a resource that
requests more replicas. It runs as many replicas as the class allows. If the limit becomes lower, existing replicas of a
revision stay, so that a change of a class removes no pods.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.names import DESIRED_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.backoff import limit_for_back_off
from gaudi_operator.core.rollout.revision import Revision, RevisionPodGroup
from gaudi_operator.core.rollout.rollout_step import RolloutStepPodCounts
from gaudi_operator.core.rollout.scale_down import SEEN_SECONDS, defer_scale_down, scale_down_costs
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import parse_int32_text


def live_workloads(observed: Observed) -> dict[str, Manifest]:
    """Return the workloads by revision. Workloads that are being deleted are left out."""
    workloads = (workload for workload in observed.workloads if "deletionTimestamp" not in workload["metadata"])
    return {name: workload for workload in workloads if (name := revision_of_workload(workload))}


def revision_of_workload(workload: Manifest) -> str:
    """Return the revision of a workload from its label or the label of its pod template, or "" without a label."""
    templates = workload["spec"].get("leaderWorkerTemplate") or workload["spec"]
    pod_template = templates.get("template") or templates.get("leaderTemplate") or templates.get("workerTemplate") or {}
    labels = (workload["metadata"].get("labels") or {}, (pod_template.get("metadata") or {}).get("labels") or {})
    return str(next((label_set[REVISION_LABEL] for label_set in labels if label_set.get(REVISION_LABEL)), ""))


def revisions_with_running_workloads(
    current: Revision, stored: Sequence[Revision], observed: Observed, in_use: Container[str]
) -> list[Revision]:
    """Return the revisions whose workloads are kept or created. The current revision comes last.

    If the ControllerRevision of a revision was deleted, the revision is read back from its workload, so that it can
    still be scaled.
    """
    known = {revision.name: revision for revision in (*stored, *revisions_with_workloads(stored, observed))}
    return [*(revision for name, revision in known.items() if name in in_use and name != current.name), current]


def revisions_with_workloads(stored: Iterable[Revision], observed: Observed) -> list[Revision]:
    """Return the revisions that have a live workload, even if their ControllerRevision was deleted."""
    stored_by_name = {revision.name: revision for revision in stored}
    return [
        stored_by_name.get(name) or _revision_from_workload(name, workload)
        for name, workload in live_workloads(observed).items()
    ]


def _revision_from_workload(name: str, workload: Manifest) -> Revision:
    # The inputs of this revision are lost. The operator can scale the revision, but cannot roll it out again.
    templates = workload["spec"].get("leaderWorkerTemplate")
    if templates is None:
        return Revision(name, 0, {}, workload["spec"]["template"], "")
    worker_template = templates["workerTemplate"]
    group = RevisionPodGroup(templates.get("size", 1), worker_template)
    return Revision(name, 0, {}, templates.get("leaderTemplate") or worker_template, "", group=group)


OVERDUE_SECONDS = 10
"""The seconds that a kubelet may need after a pod's grace period to report the end of the pod."""


def count_workload_pods(
    current: Revision,
    stored: Iterable[Revision],
    observed: Observed,
    pods: Iterable[PodView],
    forbidden: Collection[str] = (),
    fallback: Revision | None = None,
) -> tuple[RolloutStepPodCounts, list[RolloutStepPodCounts]]:
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


def _count_revision_pods(
    name: str, revision: Revision | None, replicas: int, pods: list[PodView]
) -> RolloutStepPodCounts:
    return RolloutStepPodCounts(
        name=name,
        number=revision.number if revision else 0,
        replicas=replicas,
        ready=sum(pod.is_ready for pod in pods),
        served=sum(pod.has_gate_condition for pod in pods),
        unplaced=max(0, replicas - sum(pod.is_scheduled for pod in pods)),
        failed=revision is not None and revision.failure is not None,
    )


def _adjust_group_counts(counts: RolloutStepPodCounts, active: Iterable[PodView]) -> RolloutStepPodCounts:
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


def count_ending_workload_pods(pods: Sequence[PodView], observed: Observed, deadlines: Deadlines) -> int:
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
    replicas = parse_int32_text((workload["metadata"].get("annotations") or {}).get(DESIRED_ANNOTATION))
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
    costs = scale_down_costs(state.pods, planned)
    if costs:
        state.deadlines.schedule_requeue(SEEN_SECONDS)
    desired = defer_scale_down(planned, live_replicas, costs)
    return PlannedReplicas(costs, desired, limit_for_back_off(desired, state.pods, state.failures, state.deadlines))


def limit_replicas(inference: Inference, limits: ClassLimits, revision: Revision, observed: Observed) -> Inference:
    """Return the resource with the replicas and the bounds of its autoscaler that `revision` may have."""
    limit, _ = _lowest_limit(limits, revision)
    if limit is None:
        return inference
    spec, most = inference.spec, max(limit, full_replicas_by_revision(observed).get(revision.name, 0))
    changes: dict[str, object] = {"replicas": min(spec.replicas, most)}
    if bounds := spec.autoscaling:
        # An autoscaler must be allowed to run one replica.
        highest = max(1, min(bounds.max_replicas, most))
        lowered = {"max_replicas": highest, "min_replicas": min(bounds.min_replicas, highest)}
        changes["autoscaling"] = bounds.model_copy(update=lowered)
    return replace(inference, spec=spec.model_copy(update=changes))


def describe_excess_replicas(inference: Inference, limits: ClassLimits, revision: Revision) -> str | None:
    """Return a phrase about the requested replicas that exceed the limit, or None if they are within the limit."""
    (limit, name), bounds = _lowest_limit(limits, revision), inference.spec.autoscaling
    requested = {
        "spec.replicas": inference.spec.replicas,
        "spec.autoscaling.maxReplicas": bounds.max_replicas if bounds else 0,
    }
    excess = (f"{field} {count}" for field, count in requested.items() if limit is not None and count > limit)
    field = next(excess, None)
    return f"{field} is above {limit} (limits.{name})" if field else None


def _lowest_limit(limits: ClassLimits, revision: Revision) -> tuple[int | None, str]:
    """Return (maximum number of replicas or None, name of the limit)."""
    found = [(limits.max_replicas, "maxReplicas")] if limits.max_replicas is not None else []
    if limits.max_cards is not None and revision.cards_per_replica:
        found.append((limits.max_cards // revision.cards_per_replica, "maxCards"))
    return min(found, default=(None, ""))
