"""The objects of a revision: the ControllerRevision that stores it, and the workload that creates its pods.

The workload is a ReplicaSet, or a LeaderWorkerSet if a replica is a group of pods on several nodes. The operator scales
the workload, whose controller creates and deletes the pods.
"""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.core.inference import Identity
from gaudi_operator.core.names import CONTROLLER_ANNOTATION, DESIRED_ANNOTATION, IN_PLACE_ANNOTATION
from gaudi_operator.core.rendering.metadata import Object, child_manifest, revision_labels
from gaudi_operator.core.rollout.controller_revision import history_annotations
from gaudi_operator.core.rollout.revision import Revision


def controller_revision(owner: Identity, revision: Revision, controller: str) -> Object:
    """Build the ControllerRevision that stores a revision. `controller` is the installation that runs the revision.

    Its data is immutable. Its revision number increases each time the revision is selected to run.
    """
    name, body = f"{owner.name}-{revision.name}", {"data": revision.data, "revision": revision.number}
    annotations = {CONTROLLER_ANNOTATION: controller, **history_annotations(revision)}
    return child_manifest("apps/v1", "ControllerRevision", name, owner, body, revision.name, annotations)


def workload_name(owner: Identity, revision: str) -> str:
    """Return the name of the workload of a revision: `<resource>-<revision>`."""
    return f"{owner.name}-{revision}"


def replica_set(
    owner: Identity, revision: str, template: dict[str, Any], replicas: int, annotations: Mapping[str, str]
) -> Object:
    """Build the ReplicaSet of a revision from a stored pod template. `annotations` store the state of the rollout."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": revision_labels(owner, revision)},
        "template": template,
    }
    name = workload_name(owner, revision)
    return child_manifest("apps/v1", "ReplicaSet", name, owner, {"spec": spec}, revision, annotations)


def rollout_annotations(in_place_reason: str | None, full_replicas: int | None) -> dict[str, str]:
    """Return the annotations of a workload that store its rollout state.

    `in_place_reason` is the reason why the rollout replaces pods in place (rollout/room.py). `full_replicas` is the
    number of replicas to restore after a back-off (rollout/backoff.py).
    """
    return {
        **({IN_PLACE_ANNOTATION: in_place_reason} if in_place_reason else {}),
        **({} if full_replicas is None else {DESIRED_ANNOTATION: str(full_replicas)}),
    }


GROUPS_API_VERSION, GROUPS_KIND = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"


def leader_worker_set(owner: Identity, revision: Revision, replicas: int, annotations: Mapping[str, str]) -> Object:
    """Build the LeaderWorkerSet with `replicas` groups. `annotations` store the state of the rollout.

    If one pod of a group restarts, the other pods restart themselves (docs/how-to/several-nodes.md, When a pod is
    lost). The LeaderWorkerSet controller would recreate all pods immediately, without a back-off and without counting
    crashes.
    """
    if revision.group is None:
        raise ValueError(f"revision {revision.name} is no group")
    group_template = {
        "size": revision.group.size,
        "leaderTemplate": revision.template,
        "workerTemplate": revision.group.worker_template,
        # Do not use RecreateGroupOnPodRestart, because it recreates a failing group without a back-off.
        "restartPolicy": "None",
    }
    spec = {"replicas": replicas, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": group_template}
    name = workload_name(owner, revision.name)
    return child_manifest(GROUPS_API_VERSION, GROUPS_KIND, name, owner, {"spec": spec}, revision.name, annotations)
