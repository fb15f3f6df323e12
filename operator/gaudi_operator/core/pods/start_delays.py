"""Delays of the start of pods: why a pod is not created, has no node yet, or no container on its node.

Possible reasons: the scheduler finds no node, scheduling gates hold the pod (set by a quota system such as Kueue), a
quota or an admission rule refuses the pod, or its volumes or network are not set up.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.text_formats import parse_timestamp

UNSCHEDULABLE_SECONDS = 30
"""Seconds before an unschedulable pod is reported. Cards may still become free when terminating pods have drained."""


SCHEDULING_GATED = "SchedulingGated"
_WITHOUT_NODE = ("Unschedulable", SCHEDULING_GATED)


def unscheduled_since(pod: PodView) -> datetime | None:
    """Return since when scheduling delays the start of a pod, or None if it has a node and no scheduling gate."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.true or scheduled.reason not in _WITHOUT_NODE:
        return None
    return scheduled.since


def is_gated(pod: PodView) -> bool:
    """Return True if scheduling gates delay the start of the pod.

    The scheduler assigns no node until they are removed.
    """
    scheduled = pod.conditions.get("PodScheduled")
    return scheduled is not None and not scheduled.true and scheduled.reason == SCHEDULING_GATED


def describe_scheduling_gates(pod: PodView) -> str:
    """Return the scheduling gates that delay the start of the pod, as in `the scheduling gate a.example/b`."""
    names = pod.scheduling_gates
    return f"the scheduling gate{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else "a scheduling gate"


def why_unscheduled(pod: PodView, seconds: float, deadlines: Deadlines) -> str | None:
    """Return why the start of the pod is delayed without a node for `seconds`, or None if it is not."""
    since = unscheduled_since(pod)
    if since is None or not deadlines.reached(since, seconds):
        return None
    # The scheduler's message does not name the gates.
    return (
        f"held by {describe_scheduling_gates(pod)}"
        if is_gated(pod)
        else pod.conditions["PodScheduled"].message or "no node fits"
    )


def creation_refused_since(workload: Manifest) -> datetime | None:
    """Return since when a quota or rule delays the creation of a ReplicaSet's pods, or None if unknown."""
    return parse_timestamp(_refusal(workload).get("lastTransitionTime"))


def why_creation_refused(workload: Manifest, seconds: float, deadlines: Deadlines) -> str | None:
    """Return why the creation of a ReplicaSet's pods is delayed for `seconds`, or None if it is not."""
    found, since = _refusal(workload), creation_refused_since(workload)
    if not found or (since is not None and not deadlines.reached(since, seconds)):
        return None
    return str(found.get("message") or found.get("reason") or "no reason was given")


def _refusal(workload: Manifest) -> Mapping[str, Any]:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    refusals = (each for each in conditions if (each["type"], each["status"]) == ("ReplicaFailure", "True"))
    return next(refusals, {})


UNPREPARED_SECONDS = 180
"""Seconds before missing volumes or network are reported. Attaching a disk takes one or two minutes."""


def unprepared_since(pod: PodView) -> datetime | None:
    """Return since when a pod with a node has had no sandbox, which delays its start, or None if it has one.

    The result is also None if the pod has no node or its kubelet lacks this condition (added in Kubernetes 1.29).
    """
    prepared = pod.conditions.get("PodReadyToStartContainers")
    return None if prepared is None or prepared.true else prepared.since


def why_unprepared(pod: PodView, deadlines: Deadlines) -> str | None:
    """Return a sentence about a pod whose start is delayed by volumes or network for too long, or None."""
    since = unprepared_since(pod)
    if since is None or not deadlines.reached(since, UNPREPARED_SECONDS):
        return None
    return (
        f"Pod {pod.name} has a node and has waited for its volumes or its network for more than {UNPREPARED_SECONDS} "
        f"s. The events of `kubectl describe pod {pod.name}` name what is missing."
    )
