"""Delays of the start of pods: why a pod is not created, has no node yet, or has no container on its node.

Possible reasons: the scheduler finds no node, scheduling gates hold the pod (set by a quota system such as Kueue), a
quota or an admission rule refuses the pod, or its volumes or network are not set up.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.text_formats import parse_timestamp_text

UNSCHEDULABLE_SECONDS = 30
"""Seconds before an unschedulable pod is reported. Cards may still become free when terminating pods have drained."""


SCHEDULING_GATED = "SchedulingGated"
_WITHOUT_NODE = ("Unschedulable", SCHEDULING_GATED)


def scheduling_delayed_since(pod: PodView) -> datetime | None:
    """Return the time since which the pod waits for a node, or None if the pod has a node and no scheduling gate."""
    condition = pod.conditions.get("PodScheduled")
    if condition is None or condition.is_true or condition.reason not in _WITHOUT_NODE:
        return None
    return condition.since


def is_delayed_by_scheduling_gates(pod: PodView) -> bool:
    """Return True if scheduling gates delay the start of the pod.

    The scheduler assigns no node until the gates are removed.
    """
    condition = pod.conditions.get("PodScheduled")
    return condition is not None and not condition.is_true and condition.reason == SCHEDULING_GATED


def describe_delaying_scheduling_gates(pod: PodView) -> str:
    """Return the scheduling gates that delay the start of the pod, for example "the scheduling gate a.example/b"."""
    names = pod.scheduling_gates
    return f"the scheduling gate{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else "a scheduling gate"


def why_scheduling_is_delayed(pod: PodView, seconds: float, deadlines: Deadlines) -> str | None:
    """Return why the pod still has no node after `seconds`, or None if it has a node or the time has not passed."""
    since = scheduling_delayed_since(pod)
    if since is None or not deadlines.has_passed(since, seconds):
        return None
    # The scheduler's message does not contain the names of the scheduling gates, so list the gates here.
    return (
        f"held by {describe_delaying_scheduling_gates(pod)}"
        if is_delayed_by_scheduling_gates(pod)
        else pod.conditions["PodScheduled"].message or "no node fits"
    )


def creation_delayed_since(workload: Manifest) -> datetime | None:
    """Return the time since which the creation of a ReplicaSet's pods is refused, or None if this time is unknown."""
    return parse_timestamp_text(_replica_failure_condition(workload).get("lastTransitionTime"))


def why_creation_is_delayed(workload: Manifest, seconds: float, deadlines: Deadlines) -> str | None:
    """Return why the creation of a ReplicaSet's pods is still refused after `seconds`, or None if it is not."""
    condition, since = _replica_failure_condition(workload), creation_delayed_since(workload)
    if not condition or (since is not None and not deadlines.has_passed(since, seconds)):
        return None
    return str(condition.get("message") or condition.get("reason") or "no reason was given")


def _replica_failure_condition(workload: Manifest) -> Mapping[str, Any]:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    refusals = (
        condition for condition in conditions if (condition["type"], condition["status"]) == ("ReplicaFailure", "True")
    )
    return next(refusals, {})


UNPREPARED_SECONDS = 180
"""Seconds before missing volumes or network are reported. Attaching a disk takes one or two minutes."""


def preparation_delayed_since(pod: PodView) -> datetime | None:
    """Return the time since which a pod with a node waits for its sandbox, or None if the sandbox exists.

    The result is also None if the pod has no node or its kubelet lacks this condition (added in Kubernetes 1.29).
    """
    condition = pod.conditions.get("PodReadyToStartContainers")
    return None if condition is None or condition.is_true else condition.since


def why_preparation_is_delayed(pod: PodView, deadlines: Deadlines) -> str | None:
    """Return a sentence about a pod that has waited too long for its volumes or network, or None."""
    since = preparation_delayed_since(pod)
    if since is None or not deadlines.has_passed(since, UNPREPARED_SECONDS):
        return None
    return (
        f"Pod {pod.name} has a node, but has waited for its volumes or its network for more than "
        f"{UNPREPARED_SECONDS} s. The events of `kubectl describe pod {pod.name}` name the missing volume or network."
    )
