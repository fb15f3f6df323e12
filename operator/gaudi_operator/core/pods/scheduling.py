"""Why a pod has no node yet, or no container there.

The scheduler finds no node, scheduling gates hold the pod (a quota system such as Kueue sets them), a quota or an
admission rule refuses it, or its volumes or network are not set up.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.notation import parse_timestamp
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.view import PodView

UNSCHEDULABLE_SECONDS = 30
"""Shorter spells are usual, and not reported: a pod that ends still holds its cards until it has drained."""


SCHEDULING_GATED = "SchedulingGated"
_WITHOUT_NODE = ("Unschedulable", SCHEDULING_GATED)


def unscheduled_since(pod: PodView) -> datetime | None:
    """When the scheduler first found no node or a scheduling gate; None if it has found a node or has not looked."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.true or scheduled.reason not in _WITHOUT_NODE:
        return None
    return scheduled.since


def is_gated(pod: PodView) -> bool:
    """Whether scheduling gates hold the pod: the scheduler does not look for a node until they are removed."""
    scheduled = pod.conditions.get("PodScheduled")
    return scheduled is not None and not scheduled.true and scheduled.reason == SCHEDULING_GATED


def gates(pod: PodView) -> str:
    """Return the names of the scheduling gates that hold the pod, as in `the scheduling gate a.example/b`."""
    names = pod.scheduling_gates
    return f"the scheduling gate{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else "a scheduling gate"


def why_unscheduled(pod: PodView, seconds: float, deadlines: Deadlines) -> str | None:
    """Return why the pod has had no node for so long; None while it may yet find one."""
    since = unscheduled_since(pod)
    if since is None or not deadlines.reached(since, seconds):
        return None
    # The scheduler's own message does not name the gates.
    return f"held by {gates(pod)}" if is_gated(pod) else pod.conditions["PodScheduled"].message or "no node fits"


def refused_since(workload: Manifest) -> datetime | None:
    """Since when something, such as a quota, has kept a ReplicaSet from making pods; None where nobody says."""
    return parse_timestamp(_refusal(workload).get("lastTransitionTime"))


def why_refused(workload: Manifest, seconds: float, deadlines: Deadlines) -> str | None:
    """What has kept a ReplicaSet from making pods for so long; None when nothing has."""
    found, since = _refusal(workload), refused_since(workload)
    if not found or (since is not None and not deadlines.reached(since, seconds)):
        return None
    return str(found.get("message") or found.get("reason") or "no reason was given")


def _refusal(workload: Manifest) -> Mapping[str, Any]:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    refusals = (each for each in conditions if (each["type"], each["status"]) == ("ReplicaFailure", "True"))
    return next(refusals, {})


UNPREPARED_SECONDS = 180
"""Attaching a disk takes a minute or two where all is well."""


def unprepared_since(pod: PodView) -> datetime | None:
    """Since when a pod with a node has had no sandbox there; None where it has one.

    Also None where it has no node, or its kubelet does not tell (the condition came with 1.29).
    """
    prepared = pod.conditions.get("PodReadyToStartContainers")
    return None if prepared is None or prepared.true else prepared.since


def why_unprepared(pod: PodView, deadlines: Deadlines) -> str | None:
    """The sentence about a pod that has waited for long; None while that is usual."""
    since = unprepared_since(pod)
    if since is None or not deadlines.reached(since, UNPREPARED_SECONDS):
        return None
    return (
        f"Pod {pod.name} has a node and waits for its volumes or its network for more than {UNPREPARED_SECONDS} s. The "
        f"events of `kubectl describe pod {pod.name}` name what is missing. A ReadWriteOnce PVC serves the pods of "
        "one node only: use ReadWriteMany, or spec.pod.nodeSelector."
    )
