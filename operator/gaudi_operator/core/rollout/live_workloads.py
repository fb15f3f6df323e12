"""The live workloads of a resource (ReplicaSets and LeaderWorkerSets), and the revisions that they run."""

from collections.abc import Container, Iterable, Sequence

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.rollout.revision import PodGroup, Revision


def live_workloads(observed: Observed) -> dict[str, Manifest]:
    """Return the workloads by revision. Workloads that are being deleted are left out."""
    workloads = (workload for workload in observed.workloads if "deletionTimestamp" not in workload["metadata"])
    return {name: workload for workload in workloads if (name := revision_of(workload))}


def revision_of(workload: Manifest) -> str:
    """Return the revision of a workload from its label or the label of its pod template, or "" without a label."""
    templates = workload["spec"].get("leaderWorkerTemplate") or workload["spec"]
    pod_template = templates.get("template") or templates.get("leaderTemplate") or templates.get("workerTemplate") or {}
    labels = (workload["metadata"].get("labels") or {}, (pod_template.get("metadata") or {}).get("labels") or {})
    return str(next((label_set[REVISION_LABEL] for label_set in labels if label_set.get(REVISION_LABEL)), ""))


def running_revisions(
    current: Revision, stored: Sequence[Revision], observed: Observed, in_use: Container[str]
) -> list[Revision]:
    """Return the revisions whose workloads are kept or created. The current revision comes last.

    Workloads are scaled in this order, so that old workloads release cards before the current workload requests them.
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
    group = PodGroup(templates.get("size", 1), worker_template)
    return Revision(name, 0, {}, templates.get("leaderTemplate") or worker_template, "", group=group)
