"""What a reconcile wants done. Every action carries the reason that stands in the log and, when set, in an event."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.answers import AnyQuestion
from gaudi_operator.core.observed import Manifest


@dataclass(frozen=True)
class Event:
    """An event on the resource, published only after the status write of its pass succeeded."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Apply:
    """Server-side apply of one child under our field manager."""

    manifest: Manifest
    reason: str


@dataclass(frozen=True)
class Delete:
    """Delete one child, only if it still has this UID."""

    api_version: str
    kind: str
    name: str
    uid: str
    reason: str


@dataclass(frozen=True)
class SetGate:
    """Write the gate's condition of one pod by server-side apply on pods/status, only if it still has this UID.

    `again` is whether something was written into it before.
    """

    pod: str
    uid: str
    open: bool
    reason: str
    message: str
    again: bool = False


@dataclass(frozen=True)
class SetDeletionCost:
    """Let the ReplicaSet controller take this pod before others, or no longer; only if it still has this UID."""

    pod: str
    uid: str
    revision: str
    removed_first: bool
    reason: str


Action = Apply | Delete | SetGate | SetDeletionCost


@dataclass(frozen=True)
class Decision:
    """The outcome of a reconcile: actions in order, the status to show, and events after it.

    `requeue_after` are the seconds until the next reconcile without any change; None if only a change in the cluster or
    a report can change the outcome. `question` is what the rest depends on, if that is not known yet: then the actions
    are gates, and the status is the written one. `status_held` is since when another status waits to be written.
    """

    actions: tuple[Action, ...]
    status: GaudiInferenceStatus
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    question: AnyQuestion | None = None
    status_held: datetime | None = None
