"""The delay between a change and the reconcile that it triggers. Changes within the delay cause one reconcile."""

from typing import Any

from gaudi_operator.core.gate.condition import gate_condition_status
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.status.status_builder import status_write_delay
from gaudi_operator.shell.kinds import CLASS, POD, RESOURCE, kind_of
from gaudi_operator.shell.polling.status_port import status_port_of

FOLLOW_SECONDS = 0.1
"""Seconds of delay after a change of a child. Controllers often make several changes, which cause one reconcile."""

PODS_SECONDS = 1.0
"""Seconds of delay after a change of a pod while no pod of an older revision runs.

The change affects only the status, which is throttled anyway.
"""


def trigger_delay_after_change(previous: Manifest | None, manifest: Manifest, resource: Manifest | None) -> float:
    """Return the delay in seconds until a change triggers a reconcile of `resource`.

    The delay is 0 if a gate or a user waits for the reconcile.
    """
    kind = kind_of(manifest)
    if kind in (RESOURCE, CLASS) or may_trigger_gate_close(previous, manifest):
        return 0.0
    return PODS_SECONDS if kind is POD and not _has_old_pods(resource) else FOLLOW_SECONDS


def trigger_delay_after_report(urgent: bool, resource: Manifest | None) -> float:
    """Return the delay in seconds until a pod's report triggers a reconcile of `resource`.

    `urgent` is True if the report may change the gate. Otherwise the report changes only figures in the status.
    """
    return 0.0 if urgent else status_write_delay(_status(resource).get("replicas", 0))


def may_trigger_gate_close(previous: Manifest | None, manifest: Manifest) -> bool:
    """Return True if `manifest` is a pod with an open gate, and the pod is new or its container changed or stopped."""
    if kind_of(manifest) is not POD or gate_condition_status(manifest) != "True":
        return False
    return previous is None or status_port_of(previous) != status_port_of(manifest)


def _has_old_pods(resource: Manifest | None) -> bool:
    status = _status(resource)
    return bool(status.get("replicas", 0) > status.get("updatedReplicas", 0))


def _status(resource: Manifest | None) -> dict[str, Any]:
    return (resource or {}).get("status") or {}
