"""An in-memory cluster with the LeaderWorkerSet controller, which removes the last groups first."""

from dataclasses import dataclass, replace

from gaudi_operator.core.names import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    GROUP_SIZE_ANNOTATION,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.observed import Observed
from tests.support.builders import Object, copied
from tests.unit.operator.core.cluster import Cluster
from tests.world.nodes import delete_pod

KIND = "LeaderWorkerSet"


@dataclass
class GroupCluster(Cluster):
    """One resource whose replicas are groups of pods."""

    groups_served: bool = True

    def observed(self) -> Observed:
        """Return the state that the operator observes, including workers and LeaderWorkerSets."""
        seen = super().observed()
        return replace(
            seen,
            leader_worker_sets=tuple(copied(self.kind(KIND))),
            pods=tuple(pod for pod in seen.pods if _leads(pod)),
            workers=tuple(pod for pod in seen.pods if not _leads(pod)),
            groups_served=self.groups_served,
        )

    def leaders(self, revision: str | None = None) -> list[str]:
        """Return the names of the leaders that are not terminating, of one revision or of all."""
        return [
            pod["metadata"]["name"]
            for pod in self.kind("Pod")
            if _leads(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and revision in (None, pod["metadata"]["labels"][REVISION_LABEL])
        ]

    def lose(self, leader: str) -> None:
        """Delete the pods of a group. The controller then creates pods with the same names."""
        for name in [name for kind, name in self.objects if kind == "Pod" and name.startswith(leader)]:
            del self.objects["Pod", name]

    def controllers(self) -> None:
        """Remove terminating pods and workers without a leader, create missing groups, and schedule pods."""
        super().controllers()
        for pod in self.kind("Pod"):
            metadata = pod["metadata"]
            if not _leads(pod) and ("Pod", metadata["name"].rpartition("-")[0]) not in self.objects:
                del self.objects["Pod", metadata["name"]]
        for workload in self.kind(KIND):
            self._make_groups(workload)
        self._schedule()

    def _make_groups(self, workload: Object) -> None:
        name, desired = workload["metadata"]["name"], workload["spec"]["replicas"]
        templates = workload["spec"]["leaderWorkerTemplate"]
        for pod in self.kind("Pod"):
            labels = pod["metadata"]["labels"]
            if labels[GROUP_NAME_LABEL] == name and _leads(pod) and int(labels[GROUP_INDEX_LABEL]) >= desired:
                delete_pod(self.api, pod, self.seconds)
        for group in range(desired):
            for index in range(templates["size"]):
                template = templates["workerTemplate" if index else "leaderTemplate"]
                self._make_member(workload, group, index, template)

    def _make_member(self, workload: Object, group: int, index: int, template: Object) -> None:
        name = f"{workload['metadata']['name']}-{group}" + (f"-{index}" if index else "")
        if ("Pod", name) in self.objects:
            return
        metadata = copied(template["metadata"])
        metadata["labels"] |= {
            GROUP_NAME_LABEL: workload["metadata"]["name"],
            GROUP_INDEX_LABEL: str(group),
            WORKER_INDEX_LABEL: str(index),
        }
        metadata["annotations"][GROUP_SIZE_ANNOTATION] = str(workload["spec"]["leaderWorkerTemplate"]["size"])
        owner = self._make_stateful_set(workload, self.objects["Pod", name.rpartition("-")[0]] if index else workload)
        named = {"name": name, "namespace": workload["metadata"]["namespace"], "ownerReferences": [owner]}
        manifest = {"apiVersion": "v1", "kind": "Pod", "spec": copied(template["spec"])}
        self.api.put({**manifest, "metadata": {**metadata, **named}, "status": {"phase": "Pending", "conditions": []}})

    def _make_stateful_set(self, workload: Object, owner: Object) -> Object:
        """Create the StatefulSet of `owner` (a workload or a leader) if missing. Return an owner reference to it."""
        name, namespace = owner["metadata"]["name"], workload["metadata"]["namespace"]
        if ("StatefulSet", name) not in self.objects:
            reference = {"kind": owner["kind"], "name": name, "uid": owner["metadata"]["uid"], "controller": True}
            labels = {GROUP_NAME_LABEL: workload["metadata"]["name"]}
            metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [reference]}
            self.api.put({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {}})
        made = self.objects["StatefulSet", name]["metadata"]
        return {"kind": "StatefulSet", "name": name, "uid": made["uid"], "controller": True}


def _leads(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"].get(WORKER_INDEX_LABEL) == "0")
