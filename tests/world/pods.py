"""What a scheduler and a kubelet write into the status of a pod: pure, whoever plays them."""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.core.names import CONTAINER
from tests.world.api import condition, with_condition
from tests.world.server_side_apply import Object


def placed(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has a node, and so a container."""
    return bool((pod.get("status") or {}).get("containerStatuses"))


def unschedulable(pod: Mapping[str, Any], since: str, message: str) -> Object:
    """The status of a pod that no node has room for."""
    status = pod.get("status") or {}
    known = status.get("conditions") or []
    told = with_condition(known, "PodScheduled", False, since, "Unschedulable", message)
    return {**status, "phase": "Pending", "conditions": told}


GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate by which Kueue holds pods."""


def gated(pod: Mapping[str, Any], since: str) -> Object:
    """The status of a pod that a scheduling gate holds, as the API server writes it."""
    status, message = pod.get("status") or {}, "Scheduling is blocked due to non-empty scheduling gates"
    known = status.get("conditions") or []
    conditions = with_condition(known, "PodScheduled", False, since, "SchedulingGated", message)
    return {**status, "phase": "Pending", "conditions": conditions}


def refused(since: str) -> Object:
    """What a status says of a pod that its node has refused, as where the device plugin has no card for it."""
    said = {"reason": "UnexpectedAdmissionError", "message": "Allocate failed.", "startTime": since}
    return {"phase": "Failed", **said}


def container_status(
    container: str, ready: bool, restarts: int, state: Mapping[str, Any], last: Mapping[str, Any] | None = None
) -> Object:
    """The row of the runtime's container: `last` is how the instance before it ended."""
    return {
        "name": CONTAINER,
        "containerID": container,
        "ready": ready,
        "restartCount": restarts,
        "state": dict(state),
        "lastState": {"terminated": dict(last)} if last else {},
    }


def running(pod: Mapping[str, Any], address: str, container: Mapping[str, Any], now: str) -> Object:
    """The status of a pod with a node; it is Ready once its container is and all its gates are open."""
    status = pod.get("status") or {}
    gates = (gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ())
    is_open = all(condition(pod, gate).get("status") == "True" for gate in gates)
    told = status.get("conditions") or []
    for name, true in (
        ("PodScheduled", True),
        ("Initialized", True),
        ("ContainersReady", container["ready"]),
        ("Ready", container["ready"] and is_open),
    ):
        told = with_condition(told, name, true, now)
    addresses = {"podIP": address, "podIPs": [{"ip": address}]}
    return {**status, "phase": "Running", **addresses, "conditions": told, "containerStatuses": [dict(container)]}
