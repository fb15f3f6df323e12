"""The LeaderWorkerSet of one revision: groups of pods in the place of the pods of a ReplicaSet."""

from collections.abc import Mapping

from gaudi_operator.core.children.manifests.metadata import Object, child
from gaudi_operator.core.children.manifests.replica_set import workload_name
from gaudi_operator.core.resource import Identity
from gaudi_operator.core.rollout.revision import Revision

API_VERSION = "leaderworkerset.x-k8s.io/v1"
KIND = "LeaderWorkerSet"


def leader_worker_set(owner: Identity, revision: Revision, replicas: int, annotations: Mapping[str, str]) -> Object:
    """`replicas` groups of a revision that has a group, with `annotations` of the rollout.

    A group starts anew by itself when one of its pods does (docs/several-nodes.md, When a pod is lost). Were it left to
    the controller, it would make all pods anew at once and again: without a pause, and without a count of crashes.
    """
    if revision.group is None:
        raise ValueError(f"revision {revision.name} is no group")
    templates = {
        "size": revision.group.size,
        "leaderTemplate": revision.template,
        "workerTemplate": revision.group.worker,
        "restartPolicy": "None",
    }
    spec = {"replicas": replicas, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": templates}
    name = workload_name(owner, revision.name)
    return child(API_VERSION, KIND, name, owner, {"spec": spec}, revision.name, annotations)
