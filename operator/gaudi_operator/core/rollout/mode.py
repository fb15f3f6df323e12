"""Whether new pods find room beside old ones; mode auto asks the scheduler, who alone knows (docs/revisions.md, Modes).

The answer is kept on the ReplicaSet of the revision for as long as old pods are desired, so that the question is asked
once per rollout and by whichever operator leads.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from gaudi_operator.api.v1alpha1.scaling import Rollout, RolloutMode
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.delays import UNSCHEDULABLE_SECONDS, refusal, unscheduled_since
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.planner import scaled_amount

_MAX_TEXT = 600


def why_in_place(
    rollout: Rollout,
    desired: int,
    replica_set: Manifest | None,
    pods: Sequence[PodView],
    now: datetime,
    *,
    room_to_come: bool = False,
) -> str | None:
    """The sentence why mode auto replaces pods in place; None while it surges.

    `replica_set` and `pods` are those of the new revision. One of them that has a node is answer enough: from then on
    each old pod leaves the room of its successor. While pods still end (`room_to_come`) there is no answer yet.

    Where no replica may be missing there is no place to take: then the surging pod goes on waiting for room, and
    unblock() says what a person may do.
    """
    if rollout.mode is not RolloutMode.AUTO or scaled_amount(rollout.max_unavailable, desired, round_up=False) == 0:
        return None
    if known := ((replica_set or {}).get("metadata", {}).get("annotations") or {}).get(IN_PLACE_ANNOTATION):
        return str(known)
    if room_to_come or any(pod.placed for pod in pods):
        return None
    found = _no_node(pods, now) or (_refused(replica_set, now) if replica_set else None)
    return found[:_MAX_TEXT] if found else None


def unblock(rollout: Rollout) -> str:
    """What lets an upgrade start that finds no room beside the old pods."""
    if rollout.mode is RolloutMode.AUTO:
        return (
            "No old pod goes before a new one is ready, as spec.rollout.maxUnavailable comes to 0. Free or add cards, "
            "or set spec.rollout.maxUnavailable to 1 or more: then pods are replaced in place."
        )
    return (
        "No old pod goes before a new one is ready, as spec.rollout.mode is surge. Free or add cards, or set mode to "
        "auto and spec.rollout.maxUnavailable to 1 or more: then pods are replaced in place."
    )


def _no_node(pods: Iterable[PodView], now: datetime) -> str | None:
    for pod in pods:
        since = unscheduled_since(pod) if pod.active else None
        if since and now - since >= timedelta(seconds=UNSCHEDULABLE_SECONDS):
            said = pod.conditions["PodScheduled"].message or "no node fits"
            return f"The scheduler found no room beside the old pods for {UNSCHEDULABLE_SECONDS} s: {said}"
    return None


def _refused(replica_set: Manifest, now: datetime) -> str | None:
    found = refusal(replica_set)
    if found is None or found.since is None or now - found.since < timedelta(seconds=UNSCHEDULABLE_SECONDS):
        return None
    return f"No pod beside the old ones was allowed for {UNSCHEDULABLE_SECONDS} s: {found.message}"
