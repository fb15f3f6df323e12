"""Room for a surge: whether new pods fit next to the old pods, and what the rollout does if they do not fit.

See docs/how-to/revisions.md, Clusters without a free card.

Only the scheduler and quotas decide whether there is room. The ReplicaSet of the new revision stores the reason for
replacement in place until the rollout is complete. A later leader can therefore continue the replacement.
"""

import json
from collections.abc import Sequence

from gaudi_operator.api.v1alpha1.rollout import Rollout, RolloutType
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.inference import Identity
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.start_delays import why_creation_refused, why_unscheduled
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.scale_step import resolve_pod_count

_MAX_TEXT = 600


def why_replaced_in_place(
    rollout: Rollout,
    replicas: int,
    replica_set: Manifest | None,
    pods: Sequence[PodView],
    deadlines: Deadlines,
    *,
    waits: bool = False,
) -> str | None:
    """Return why pods are replaced in place although the spec permits a surge, or None while the rollout surges.

    `replica_set` and `pods` belong to the new revision. `waits` is True while other pods are terminating or the rollout
    is paused: the rollout then does not begin to replace pods in place. If replacement in place is not permitted, the
    new pod waits for room, and explain_blocked_upgrade() describes the options.
    """
    if not can_replace_in_place(rollout, replicas):
        return None
    # Never change a stored answer. Otherwise the rollout would alternate between replacing pods in place and waiting
    # for room.
    if stored_reason := stored_in_place_reason(replica_set):
        return stored_reason
    if waits:
        return None
    seconds = rollout.surge_timeout_seconds
    for pod in pods:
        if pod.is_active and (reason := why_unscheduled(pod, seconds, deadlines)):
            return f"Pod {pod.name} had no room next to the old pods for {seconds} s: {reason}"[:_MAX_TEXT]
    if replica_set and (reason := why_creation_refused(replica_set, seconds, deadlines)):
        return f"No new pod could be created next to the old pods for {seconds} s: {reason}"[:_MAX_TEXT]
    return None


def stored_in_place_reason(replica_set: Manifest | None) -> str | None:
    """Return the stored reason for replacement in place, or None if the rollout may surge.

    The reason is stored if there is no room for new pods next to the old pods.
    """
    annotations = (replica_set or {}).get("metadata", {}).get("annotations") or {}
    return annotations.get(IN_PLACE_ANNOTATION) or None


def can_replace_in_place(rollout: Rollout, replicas: int) -> bool:
    """Return True if a rollout with a surge may replace pods in place when the surge has no room."""
    return rollout.type is RolloutType.SURGE_THEN_IN_PLACE and _may_miss_a_replica(rollout, replicas)


def _may_miss_a_replica(rollout: Rollout, replicas: int) -> bool:
    if rollout.max_unavailable is None:
        # Replacing a single replica in place makes the model unavailable for a whole warm-up. Therefore users must
        # request it explicitly.
        return replicas > 1
    return resolve_pod_count(rollout.max_unavailable, replicas, round_up=False) > 0


def explain_blocked_upgrade(rollout: Rollout, replicas: int, owner: Identity) -> str:
    """Return sentences that explain why an upgrade waits for room next to the old pods, and how to unblock it."""
    change: dict[str, str | int | None] = {"type": RolloutType.SURGE_THEN_IN_PLACE}
    if not _may_miss_a_replica(rollout, replicas):
        change["maxUnavailable"] = None if replicas > 1 else 1
    patch = json.dumps({"spec": {"rollout": change}}, separators=(",", ":"))
    command = f"`kubectl patch gi {owner.name} -n {owner.namespace} --type merge -p '{patch}'`."
    cause = _why_rollout_waits(rollout, replicas)
    if replicas > 1:
        return (
            f"The old pods stay, because {cause}. Free or add cards. To replace pods in place instead, with one "
            f"replica missing meanwhile, run: {command}"
        )
    return (
        f"The old pod stays, because {cause}. Replacing it in place stops traffic until the new pod is warm. Free or "
        f"add cards. To accept the outage, run: {command}"
    )


def _why_rollout_waits(rollout: Rollout, replicas: int) -> str:
    """Return the clause that explains why a rollout without room waits."""
    if rollout.type is RolloutType.SURGE:
        return "spec.rollout.type is Surge"
    match rollout.max_unavailable:
        case None:
            return "it is the only replica"
        case 0 | "0%" as zero:
            return f"spec.rollout.maxUnavailable is {zero}"
        case share:
            return f"spec.rollout.maxUnavailable is {share}, which is 0 of {replicas} replicas"
