"""The actions of a reconcile. Each action has a reason, which is logged."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck
from gaudi_operator.core.observed import Manifest, Observed


@dataclass(frozen=True)
class Event:
    """An event on the resource. It is published only after the status write of the same reconcile has succeeded."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Apply:
    """A server-side apply of one child with the operator's field manager."""

    manifest: Manifest
    reason: str


@dataclass(frozen=True)
class Delete:
    """The deletion of one child. The API server rejects the deletion if the child has another UID."""

    api_version: str
    kind: str
    name: str
    uid: str
    reason: str


@dataclass(frozen=True)
class SetGate:
    """A write of one pod's gate condition, by server-side apply on pods/status. The pod must still have this UID.

    `is_rewrite` is True if the gate was written before.
    """

    pod: str
    uid: str
    open: bool
    reason: str
    message: str
    is_rewrite: bool = False


@dataclass(frozen=True)
class SetDeletionCost:
    """A write of a pod's deletion cost, if the pod still has this UID. Without `removed_first`, the cost is reset."""

    pod: str
    uid: str
    revision: str
    removed_first: bool
    reason: str


Action = Apply | Delete | SetGate | SetDeletionCost


@dataclass(frozen=True)
class Decision:
    """The ordered actions of one reconcile, the status to write, and the events to publish after the status write.

    `requeue_after` is the number of seconds until the next reconcile if nothing else triggers it, or None if no
    deadline is pending. `pending_check` is set if the policy of a new revision is not checked yet. In this case the
    actions contain only gate writes, and the status does not change. `status_held_since` is the time since which a
    newer status waits to be written. `writes_status` is False for a resource that this operator must leave alone.
    """

    actions: tuple[Action, ...]
    status: GaudiInferenceStatus
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    pending_check: BucketPolicyCheck | None = None
    status_held_since: datetime | None = None
    writes_status: bool = True


def action_changes_live_objects(action: Action, observed: Observed) -> bool:
    """Return True if the action deletes an object or changes a live workload. A further step may then be due."""
    if isinstance(action, Apply):
        live_workloads = {(workload["kind"], workload["metadata"]["name"]) for workload in observed.workloads}
        return (action.manifest["kind"], action.manifest["metadata"]["name"]) in live_workloads
    return isinstance(action, Delete)
