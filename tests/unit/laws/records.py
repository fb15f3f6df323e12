"""Small handwritten records: one resource with two replicas, whose pods are named by letters."""

from typing import Any

from tests.laws.history import Child, History, Moment, Pod, Runtime

OLD, NEW = "old", "new"
READY = {"type": "Ready", "status": "True", "reason": "Serving", "message": "All serve."}
UNREADY = {"type": "Ready", "status": "False", "reason": "WarmingUp", "message": "They warm up."}


def pod(name: str, revision: str = OLD, **fields: Any) -> Pod:
    """Return a ready pod with instance `<name>-1`."""
    given = {"counts": True, "ready": True, "gate": True, "judged": f"{name}-1", **fields}
    return Pod(name=name, uid=name, revision=revision, **given)


def moment(at: float, *pods: Pod, **fields: Any) -> Moment:
    """Return a moment in which all these pods serve. `spec` and `status` are merged, other `fields` replaced."""
    resource = {
        "metadata": {"uid": "mine", "generation": 1},
        "spec": {"replicas": 2, **fields.pop("spec", {})},
        "status": {"observedGeneration": 1, "conditions": [READY], **fields.pop("status", {})},
    }
    given: dict[str, Any] = {
        "pods": {each.uid: each for each in pods},
        "endpoints": frozenset(each.uid for each in pods if each.serves),
        "replica_sets": {OLD: 2},
        "runtimes": {each.uid: Runtime(f"{each.name}-1", serving=True) for each in pods},
        "warm": frozenset(f"{each.name}-1" for each in pods),
        **fields,
    }
    return Moment(at=at, resource=resource, **given)


def history(*moments: Moment, **fields: Any) -> History:
    """Return a record that ends a day later.

    The operator observes changes within 2 s, the kubelet crashes within 3 s.
    """
    given = {"end": moments[-1].at + 86_400, **fields}
    return History(lag=2.0, kubelet=3.0, moments=list(moments), **given)


def child(owner: str | None, kind: str = "Service") -> Child:
    """Return a child of that owner."""
    return Child(kind, "tiny", owner)
