"""A pod that has a node and gets no container there: its volumes or its network do not come."""

from datetime import datetime, timedelta

from gaudi_operator.core.pods import PodView

UNPREPARED_SECONDS = 180
"""Attaching a disk takes a minute or two where all is well."""


def unprepared_since(pod: PodView) -> datetime | None:
    """When the kubelet began to wait; None when the pod has its sandbox, has no node, or its kubelet does not say."""
    prepared = pod.conditions.get("PodReadyToStartContainers")
    return None if prepared is None or prepared.true else prepared.since


def why_unprepared(pod: PodView, now: datetime) -> str | None:
    """The sentence about a pod that has waited for long; None while it may yet be prepared."""
    since = unprepared_since(pod)
    if since is None or now - since < timedelta(seconds=UNPREPARED_SECONDS):
        return None
    return (
        f"Pod {pod.name} has a node and waits for its volumes or its network for more than {UNPREPARED_SECONDS} s. The "
        f"events of `kubectl describe pod {pod.name}` name what is missing. A ReadWriteOnce claim serves the pods of "
        "one node only: use ReadWriteMany, or spec.pod.nodeSelector."
    )
