"""Whether new pods find room beside old ones; mode Auto asks the scheduler, who alone knows.

See docs/how-to/revisions.md, Modes.

The answer is kept on the ReplicaSet of the revision for as long as old pods are desired, so that the question is asked
once per rollout and by whichever operator leads.
"""

from collections.abc import Sequence

from gaudi_operator.api.v1alpha1.scaling import Rollout, RolloutMode
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.scheduling import why_refused, why_unscheduled
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.planner import scaled_amount

_MAX_TEXT = 600


def why_in_place(
    rollout: Rollout,
    desired: int,
    replica_set: Manifest | None,
    pods: Sequence[PodView],
    deadlines: Deadlines,
    *,
    room_to_come: bool = False,
) -> str | None:
    """The sentence why mode Auto replaces pods in place; None while it surges.

    `replica_set` and `pods` are those of the new revision. One of them that has a node is answer enough: from then on
    each old pod leaves the room of its successor. While pods still end (`room_to_come`) there is no answer yet.

    Where no replica may be missing there is no place to take: then the surging pod goes on waiting for room, and
    unblock() says what a person may do.
    """
    if not may_go_in_place(rollout, desired):
        return None
    # Asked once per rollout: where the answer to change in the middle, pods would wait for room and hold it in turns.
    if known := ((replica_set or {}).get("metadata", {}).get("annotations") or {}).get(IN_PLACE_ANNOTATION):
        return str(known)
    # A pod with a node proves that the rest fits too: each old pod leaves the room of the next.
    if room_to_come or any(pod.placed for pod in pods):
        return None
    seconds = rollout.surge_timeout_seconds
    for pod in pods:
        if pod.active and (said := why_unscheduled(pod, seconds, deadlines)):
            return f"The scheduler found no room beside the old pods for {seconds} s: {said}"[:_MAX_TEXT]
    if replica_set and (said := why_refused(replica_set, seconds, deadlines)):
        return f"No pod beside the old ones was allowed for {seconds} s: {said}"[:_MAX_TEXT]
    return None


def may_go_in_place(rollout: Rollout, desired: int) -> bool:
    """Whether mode Auto replaces pods in place where it finds no room beside them."""
    return rollout.mode is RolloutMode.AUTO and scaled_amount(rollout.max_unavailable, desired, round_up=False) > 0


def in_place_soon(rollout: Rollout) -> str:
    """What follows when no room comes beside the old pods."""
    return (
        f"Unless room comes, pods are replaced in place {rollout.surge_timeout_seconds} s after that began "
        "(spec.rollout.surgeTimeoutSeconds)."
    )


def unblock(rollout: Rollout) -> str:
    """What lets an upgrade start that finds no room beside the old pods."""
    if rollout.mode is RolloutMode.AUTO:
        return (
            "No old pod goes before a new one is ready, as spec.rollout.maxUnavailable comes to 0. Free or add cards, "
            "or set spec.rollout.maxUnavailable to 1 or more: then pods are replaced in place."
        )
    return (
        "No old pod goes before a new one is ready, as spec.rollout.mode is Surge. Free or add cards, or set mode to "
        "Auto and spec.rollout.maxUnavailable to 1 or more: then pods are replaced in place."
    )
