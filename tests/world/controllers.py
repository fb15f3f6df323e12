"""The Kubernetes controllers that the operator relies on: the ReplicaSet controller and the garbage collector."""

from collections.abc import Collection

from tests.world.api import Api, Object, condition, counts, owner, with_condition
from tests.world.clock import stamp
from tests.world.nodes import delete_pod
from tests.world.pods import placed


def advance(api: Api, quota: int | None, now: float, elsewhere: Collection[str] = ()) -> None:
    """Run both controllers for one second.

    `quota` limits the number of pods that are not terminating. The value None sets no limit. `elsewhere` contains UIDs
    of owners outside `api`.
    """
    uids = {*elsewhere, *(each["metadata"]["uid"] for each in api.objects.values())}
    for (kind, name), each in list(api.objects.items()):
        if owner(each) in uids or owner(each) is None:
            continue
        if kind == "Pod":
            delete_pod(api, each, now)
        else:
            api.remove(kind, name)
    for replica_set in api.kind("ReplicaSet"):
        _reconcile(api, replica_set, quota, now)


def _reconcile(api: Api, replica_set: Object, quota: int | None, now: float) -> None:
    uid, desired = replica_set["metadata"]["uid"], replica_set["spec"].get("replicas", 1)
    mine = [pod for pod in api.kind("Pod") if owner(pod) == uid and counts(pod)]
    for pod in sorted(mine, key=_deletion_order)[: max(0, len(mine) - desired)]:
        delete_pod(api, pod, now)
    refused = False
    for _ in range(desired - len(mine)):
        if quota is not None and sum(counts(pod) for pod in api.kind("Pod")) >= quota:
            refused = True
            break
        _create_pod(api, replica_set, now)
    _write_status(api, replica_set, refused, now)


def _deletion_order(pod: Object) -> tuple[bool, bool, int, str, str, str]:
    """Return the sort key for deletion.

    Pods without a node, unready pods, cheap pods and new pods are deleted first.
    """
    cost = int((pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", 0))
    ready = condition(pod, "Ready")
    since = ready["lastTransitionTime"] if ready.get("status") == "True" else ""
    newest = map(_reversed, (since, pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    return placed(pod), ready.get("status") == "True", cost, *newest


def _reversed(text: str) -> str:
    """Return a text that sorts in the reverse order of `text`."""
    return "".join(chr(255 - ord(each)) for each in text)


def _create_pod(api: Api, replica_set: Object, now: float) -> None:
    template, metadata = replica_set["spec"]["template"], replica_set["metadata"]
    reference = {"kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    fresh = {
        **template["metadata"],
        "name": f"{metadata['name']}-{api.version:07}",
        "namespace": metadata["namespace"],
        "creationTimestamp": stamp(now),
        "ownerReferences": [reference],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "status": {"phase": "Pending"}}
    api.put({**body, "metadata": fresh})


def _write_status(api: Api, replica_set: Object, refused: bool, now: float) -> None:
    """Write the number of replicas, and the condition ReplicaFailure if the creation of a pod was refused."""
    known = (replica_set.get("status") or {}).get("conditions", [])
    others = [each for each in known if each["type"] != "ReplicaFailure"]
    message = 'pods "x" is forbidden: exceeded quota: cards'
    failure = with_condition(known, "ReplicaFailure", True, stamp(now), "FailedCreate", message)
    fresh = {"replicas": replica_set["spec"].get("replicas", 1), "conditions": failure if refused else others}
    if fresh != replica_set.get("status"):
        api.status(replica_set, **fresh)
