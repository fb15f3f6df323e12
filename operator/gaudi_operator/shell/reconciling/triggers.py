"""How soon a change leads to a reconcile of its resource. Changes that are due together are one reconcile."""

from typing import Any

from gaudi_operator.core.gate.condition import gate_status
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.status.status import moves_within
from gaudi_operator.shell.kinds import CLASS, POD, RESOURCE, kind_of
from gaudi_operator.shell.polling.status_port import target_of

FOLLOW_SECONDS = 0.1
"""The cluster's controllers answer one write of ours with several of their own: these are one reconcile."""

PODS_SECONDS = 1.0
"""Changes of pods while no rollout waits for them: they change the status only, which is not written more often."""


def after_change(before: Manifest | None, changed: Manifest, resource: Manifest | None) -> float:
    """Seconds from a change of an object to the reconcile of `resource`; 0 where a gate or a person waits for it."""
    kind = kind_of(changed)
    if kind in (RESOURCE, CLASS) or may_close_gate(before, changed):
        return 0.0
    return PODS_SECONDS if kind is POD and not _rolls_out(resource) else FOLLOW_SECONDS


def after_report(decides: bool, resource: Manifest | None) -> float:
    """Seconds from a report of a pod to the reconcile of `resource`. `decides` is whether its gate may change by it;
    otherwise only figures of the status move.
    """
    return 0.0 if decides else moves_within(_status(resource).get("replicas", 0))


def may_close_gate(before: Manifest | None, changed: Manifest) -> bool:
    """Whether the object is a pod with an open gate, and another container runs in it than before, or none."""
    if kind_of(changed) is not POD or gate_status(changed) != "True":
        return False
    return before is None or target_of(before) != target_of(changed)


def _rolls_out(resource: Manifest | None) -> bool:
    return bool(_status(resource).get("phase") == "RollingOut")


def _status(resource: Manifest | None) -> dict[str, Any]:
    return (resource or {}).get("status") or {}
