"""Where a pod has no place yet: what the scheduler, a quota or an admission rule says about it."""

from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods import PodView

UNSCHEDULABLE_SECONDS = 30
"""Shorter spells are usual: a pod that ends still holds its cards until it has drained."""


@dataclass(frozen=True)
class Refusal:
    """Why a ReplicaSet cannot make pods, and since when."""

    message: str
    since: datetime | None


def unscheduled_since(pod: PodView) -> datetime | None:
    """When the scheduler first found no node; None when it has found one or has not looked."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.true or scheduled.reason != "Unschedulable":
        return None
    return scheduled.since


def refusal(replica_set: Manifest) -> Refusal | None:
    """What keeps a ReplicaSet from making pods; None when nothing does."""
    for condition in (replica_set.get("status") or {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            since = condition.get("lastTransitionTime")
            said = condition.get("message") or condition.get("reason") or "no reason was given"
            return Refusal(said, datetime.fromisoformat(since) if since else None)
    return None
