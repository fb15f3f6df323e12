"""The readiness gate as a pod condition: its contents, the write of the condition, and the pod after the write.

The message records the container, the runtime instance and the plan for which the gate was judged. A later leader can
therefore see from the pod alone whether the judgement still applies (docs/internals/architecture.md, The gate).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import GATE
from gaudi_operator.core.pods.pod_view import PodCondition, PodView, read_condition
from gaudi_operator.core.text_formats import format_timestamp
from gaudi_runtime.contract.text import make_one_line

_RECORD = re.compile(r" ?Container (\S+), instance (\S+), plan (\S+)\.$")

SETTLE_SECONDS = 10
"""Seconds within which a kubelet observes an opened gate and reports the pod as ready."""


@dataclass(frozen=True)
class GateConditionInstance:
    """The container, runtime instance and plan for which a gate was opened."""

    container: str
    instance: str
    plan: str

    def __str__(self) -> str:
        return f"Container {self.container}, instance {self.instance}, plan {self.plan}."


def gate_condition_instance(pod: PodView) -> GateConditionInstance | None:
    """Return the instance that is recorded in the message of the pod's gate, or None without a record."""
    # A pod condition has no separate field for the record, so its message contains the record. Only this module reads
    # and writes the record.
    match = _RECORD.search(pod.gate.message) if pod.gate else None
    return GateConditionInstance(*match.groups()) if match else None


def gate_condition_message(pod: PodView) -> str:
    """Return the message of the pod's gate without the record. The message describes the captured graphs."""
    return _RECORD.sub("", pod.gate.message) if pod.gate else ""


def is_gate_condition_settling(pod: PodView, deadlines: Deadlines) -> bool:
    """Return True if the gate of the pod has just opened and the kubelet does not report the pod as ready yet."""
    since = pod.open_since if pod.is_active and not pod.is_ready else None
    return since is not None and not deadlines.has_passed(since, SETTLE_SECONDS)


def gate_condition_status(pod: Mapping[str, Any]) -> str | None:
    """Return the status of the gate in a pod's manifest, or None if the gate was never written."""
    condition = _find_gate_condition(pod)
    return str(condition["status"]) if condition else None


def conditions_except_gate(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all conditions of a pod's manifest except the gate condition. Other writers own these conditions."""
    return [condition for condition in (pod.get("status") or {}).get("conditions") or () if condition["type"] != GATE]


def gate_condition(pod: Mapping[str, Any], gate: SetGate, now: datetime) -> dict[str, str]:
    """Return the gate condition to write. `pod` is the manifest of the pod, or empty if the manifest is unknown."""
    previous = _find_gate_condition(pod)
    condition = _condition_after_write(read_condition(previous, now) if previous else None, gate, now)
    return {
        "type": GATE,
        "status": "True" if condition.is_true else "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": format_timestamp(condition.since or now),
    }


def pods_with_gate_conditions(pods: Iterable[PodView], gates: Iterable[SetGate], now: datetime) -> tuple[PodView, ...]:
    """Return the pods with the state after `gates` are written, for the rest of the reconcile."""
    gates_by_uid = {gate.uid: gate for gate in gates}
    pods_and_gates = ((pod, gates_by_uid.get(pod.uid)) for pod in pods)
    return tuple(
        replace(pod, conditions={**pod.conditions, GATE: _condition_after_write(pod.gate, gate, now)}) if gate else pod
        for pod, gate in pods_and_gates
    )


def _condition_after_write(previous: PodCondition | None, gate: SetGate, now: datetime) -> PodCondition:
    """Return the gate condition after the write. A known transition time changes only with the status."""
    since = previous.since if previous is not None and previous.is_true == gate.open else None
    return PodCondition(gate.open, gate.reason, make_one_line(gate.message), since or now.replace(microsecond=0))


def _find_gate_condition(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == GATE), None)
