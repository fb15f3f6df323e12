"""Pods as the API server stores them."""

from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.core.names import CONTAINER, GATE, NAME_LABEL, PLAN_HASH_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.observed import Observed, ObservedReport
from gaudi_operator.core.pods.pod_view import PodView, read_pod_views
from gaudi_runtime.contract.report import WarmupReport
from tests.support.builders import Object
from tests.unit.operator.core.reports import PLAN
from tests.unit.operator.core.resources import NOW, resource

RUNNING = {"running": {"startedAt": "2026-08-01T11:00:00Z"}}
LONG_AGO = "2026-08-01T11:00:00Z"


def condition(kind: str, true: bool, reason: str = "", message: str = "", since: str = LONG_AGO) -> Object:
    """Return a condition of a pod."""
    status = "True" if true else "False"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def gate_condition(true: bool, message: str = "", reason: str = "WarmedUp", since: str = LONG_AGO) -> Object:
    """Return the condition of the operator's readiness gate."""
    return condition(GATE, true, reason, message, since)


def pod(
    name: str = "a",
    *,
    revision: str = "r1",
    conditions: tuple[Object, ...] = (),
    container: str | None = "c1",
    state: Object | None = None,
    last_state: Object | None = None,
    phase: str = "Running",
    terminating: bool = False,
    plan_hash: str = PLAN,
) -> Object:
    """Return a pod of resource `tiny`. If `container` is None, the kubelet has not started the container yet."""
    metadata: Object = {
        "name": name,
        "uid": f"uid-of-{name}",
        "labels": {NAME_LABEL: "tiny", REVISION_LABEL: revision},
        "annotations": {PLAN_HASH_ANNOTATION: plan_hash},
    }
    if terminating:
        metadata["deletionTimestamp"] = LONG_AGO
    status: Object = {"phase": phase, "conditions": list(conditions)}
    if container is not None:
        status["containerStatuses"] = [
            {
                "name": CONTAINER,
                "containerID": container,
                "state": RUNNING if state is None else state,
                "lastState": last_state or {},
            }
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def gated(*gates: str, since: str = LONG_AGO) -> Object:
    """Return a pod with scheduling gates of these names."""
    message = "Scheduling is blocked due to non-empty scheduling gates"
    held = condition("PodScheduled", False, "SchedulingGated", message, since)
    found = pod(container=None, phase="Pending", conditions=(held,))
    return {**found, "spec": {"schedulingGates": [{"name": each} for each in gates]}}


def view(
    manifest: Object | None = None, report: WarmupReport | None = None, now: datetime = NOW, **word: Any
) -> PodView:
    """Return the operator's view of a pod. Container `c1` has sent `report`, unless `word` overrides these fields."""
    manifest = pod() if manifest is None else manifest
    given = {"container_id": "c1", "received_at": NOW - timedelta(seconds=1), "report": report, **word}
    reports = {manifest["metadata"]["uid"]: ObservedReport(**given)} if report or word else {}
    return read_pod_views(Observed(resource(), pods=(manifest,), reports=reports, now=now))[0]


def replica_set(name: str, replicas: int) -> Object:
    """Return the ReplicaSet of the revision `name`."""
    metadata = {"name": f"tiny-{name}", "uid": f"u-{name}", "labels": {REVISION_LABEL: name}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": replicas}}
