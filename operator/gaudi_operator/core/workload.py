"""The ReplicaSets of all revisions, as the rollout planner counts them and as they are to be written."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods import PodView
from gaudi_operator.core.revision import Revision
from gaudi_operator.core.rollout import RevisionPods, Step

OVERDUE = timedelta(seconds=10)
"""What a kubelet may need beyond the grace period of a pod to report its end."""


def live_replica_sets(observed: Observed) -> dict[str, Manifest]:
    """ReplicaSets that are not being deleted, by revision."""
    return {
        each["metadata"]["labels"][REVISION_LABEL]: each
        for each in observed.replica_sets
        if "deletionTimestamp" not in each["metadata"]
    }


def count_pods(
    current: Revision, stored: Iterable[Revision], observed: Observed, pods: Iterable[PodView]
) -> tuple[RevisionPods, list[RevisionPods]]:
    """Pods of the current revision, and of each older one that has a ReplicaSet."""
    numbers = {revision.name: revision.number for revision in stored} | {current.name: current.number}
    wished = {current.name: 0, **written_replicas(observed)}
    active = [pod for pod in pods if pod.active]
    counted = {
        name: RevisionPods(
            name=name,
            number=numbers.get(name, 0),
            replicas=replicas,
            ready=sum(pod.ready for pod in active if pod.revision == name),
            served=sum(pod.served for pod in active if pod.revision == name),
            unplaced=max(0, replicas - sum(pod.placed for pod in active if pod.revision == name)),
        )
        for name, replicas in wished.items()
    }
    mine = counted.pop(current.name)
    return mine, list(counted.values())


def leaving(pods: Iterable[PodView], now: datetime) -> int:
    """Pods that end within their grace period; one that is overdue is on a node that nobody hears of."""
    return sum(pod.terminating and pod.gone_by is not None and now < pod.gone_by + OVERDUE for pod in pods)


def written_replicas(observed: Observed) -> dict[str, int]:
    """Replicas of each revision's ReplicaSet as they stand there."""
    return {name: each["spec"].get("replicas", 1) for name, each in live_replica_sets(observed).items()}


def wished_replicas(current: Revision, observed: Observed, step: Step) -> dict[str, int]:
    """Replicas of each revision's ReplicaSet after `step`."""
    return {current.name: 0, **written_replicas(observed), **{scale.revision: scale.replicas for scale in step.scales}}


def running_revisions(
    current: Revision, stored: Iterable[Revision], observed: Observed, in_use: set[str]
) -> list[Revision]:
    """The current revision and the older ones whose ReplicaSets may still have to make pods.

    One whose ControllerRevision was deleted by others is read back from its ReplicaSet, so that it can be scaled.
    """
    known = {revision.name: revision for revision in stored}
    olds = [
        known.get(name) or Revision(name, 0, {}, each["spec"]["template"], "")
        for name, each in live_replica_sets(observed).items()
        if name in in_use and name != current.name
    ]
    return [current, *olds]
