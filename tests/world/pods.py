"""The pod statuses that a scheduler and a kubelet write. All functions are pure."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.core.names import CONTAINER
from tests.world.api import condition, with_condition
from tests.world.server_side_apply import Object


def placed(pod: Mapping[str, Any]) -> bool:
    """Return True if a pod has a node and therefore a container."""
    return bool((pod.get("status") or {}).get("containerStatuses"))


def unschedulable(pod: Mapping[str, Any], since: str, message: str) -> Object:
    """Return the status of a pod that fits on no node."""
    status = pod.get("status") or {}
    known = status.get("conditions") or []
    conditions = with_condition(known, "PodScheduled", False, since, "Unschedulable", message)
    return {**status, "phase": "Pending", "conditions": conditions}


GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate with which Kueue holds pods."""


def gated(pod: Mapping[str, Any], since: str) -> Object:
    """Return the status of a pod with a scheduling gate, as the API server writes it."""
    status, message = pod.get("status") or {}, "Scheduling is blocked due to non-empty scheduling gates"
    known = status.get("conditions") or []
    conditions = with_condition(known, "PodScheduled", False, since, "SchedulingGated", message)
    return {**status, "phase": "Pending", "conditions": conditions}


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Return True if scheduling gates hold the pod."""
    return bool(pod["spec"].get("schedulingGates"))


def refused(since: str) -> Object:
    """Return the status of a pod that its node has rejected, for example because no card is free."""
    fields = {"reason": "UnexpectedAdmissionError", "message": "Allocate failed.", "startTime": since}
    return {"phase": "Failed", **fields}


def container_status(
    container: str, ready: bool, restarts: int, state: Mapping[str, Any], last: Mapping[str, Any] | None = None
) -> Object:
    """Return the status of the runtime's container. `last` is the termination of the previous instance."""
    return {
        "name": CONTAINER,
        "containerID": container,
        "ready": ready,
        "restartCount": restarts,
        "state": dict(state),
        "lastState": {"terminated": dict(last)} if last else {},
    }


def running(pod: Mapping[str, Any], address: str, container: Mapping[str, Any], now: str) -> Object:
    """Return the status of a pod with a node. The pod is Ready if its container is ready and all its gates are open."""
    status = pod.get("status") or {}
    gates = (gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ())
    is_open = all(condition(pod, gate).get("status") == "True" for gate in gates)
    conditions = status.get("conditions") or []
    for name, true in (
        ("PodScheduled", True),
        ("Initialized", True),
        ("ContainersReady", container["ready"]),
        ("Ready", container["ready"] and is_open),
    ):
        conditions = with_condition(conditions, name, true, now)
    addresses = {"podIP": address, "podIPs": [{"ip": address}]}
    return {**status, "phase": "Running", **addresses, "conditions": conditions, "containerStatuses": [dict(container)]}
