"""Which pods go when a ReplicaSet is lowered: those that hurt least (docs/how-to/scaling.md, Which pods go).

The ReplicaSet controller takes pods that are not ready first, and among ready ones those of the least deletion cost.
A pod whose gate has just closed is ready in its eyes until the kubelet has followed, so that one goes by cost too.
So a cost is written only where a ready pod has to go and others have more to lose: first the costs, and the lower
number of replicas in a later reconcile, when they stand on the pods. Once written they are the choice, whatever the
load does meanwhile, so that any later operator goes on with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.gate.thresholds import captured_percent
from gaudi_operator.core.names import REMOVED_FIRST
from gaudi_operator.core.pods.view import PodView

SEEN_SECONDS = 0.2
"""From costs to the lower number of replicas: the ReplicaSet controller sees both by watches of their own."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def deletion_costs(pods: Iterable[PodView], replicas: Mapping[str, int]) -> list[SetDeletionCost]:
    """The costs to be written or taken back so that each revision comes down to `replicas` by the right pods."""
    found: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if pod.active and pod.revision in replicas and pod.ordinal is None:  # of groups the last ones go
            found[pod.revision].append(pod)
    return [cost for revision, mine in found.items() for cost in _costs(mine, replicas[revision])]


def deferred(replicas: Mapping[str, int], live: Mapping[str, int], costs: Iterable[SetDeletionCost]) -> dict[str, int]:
    """`replicas` by revision without the steps down from `live` that wait for costs to stand on their pods.

    Nor are there the steps up into the room that they are to make.
    """
    waiting = {cost.revision for cost in costs if cost.removed_first}
    kept = {name: max(replicas[name], live[name]) for name in waiting & replicas.keys() & live.keys()}
    missing = sum(count - replicas[name] for name, count in kept.items())
    return {name: _without(missing, count, live.get(name, 0)) for name, count in {**replicas, **kept}.items()}


def _without(room: int, count: int, live: int) -> int:
    return max(count - room, min(count, live))


def still_to_go(pods: Iterable[PodView], replicas: Mapping[str, int]) -> int:
    """How many of the pods that serve may be taken until each revision has come down to `replicas`, which stand in its
    workload already: any of those that are alike to the ReplicaSet controller, and of groups the last ones.
    """
    found: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if pod.active:
            found[pod.revision].append(pod)
    return sum(_serving_to_go(mine, replicas.get(revision, 0)) for revision, mine in found.items())


def _serving_to_go(active: Sequence[PodView], desired: int) -> int:
    serving = [pod for pod in active if pod.ready]
    if any(pod.ordinal is not None for pod in active):
        return sum(pod.ordinal is not None and pod.ordinal >= desired for pod in serving)
    before = sum(not pod.ready and (not _is_shown_ready(pod) or pod.deletion_cost == REMOVED_FIRST) for pod in active)
    return min(len(serving), max(0, len(active) - desired - before))


def removal_candidates(ready: Sequence[PodView], count: int) -> list[PodView]:
    """The `count` of these ready pods that hurt least; none when all have the same to lose: then any may go."""
    # Writing costs that say nothing would cost a write per pod and delay the step by a reconcile.
    if not 0 < count < len(ready) or len({_loss(pod) for pod in ready}) == 1:
        return []
    return sorted(ready, key=lambda pod: (_loss(pod), -_ready_since(pod).timestamp(), pod.name))[:count]


def _costs(active: Sequence[PodView], desired: int) -> Iterable[SetDeletionCost]:
    # By the condition that the controller reads, not by our gate: the kubelet follows a closed gate a moment later.
    shown = [pod for pod in active if _is_shown_ready(pod)]
    chosen = removal_candidates(shown, len(shown) - desired)
    for pod in active:
        if pod in chosen and pod.deletion_cost != REMOVED_FIRST:
            yield SetDeletionCost(pod.name, pod.uid, pod.revision, True, f"it goes first: {_said(pod)}")
        elif pod.deletion_cost == REMOVED_FIRST and (desired >= len(active) or (chosen and pod not in chosen)):
            yield SetDeletionCost(pod.name, pod.uid, pod.revision, False, "it does not have to go any more")


def _is_shown_ready(pod: PodView) -> bool:
    return "Ready" in pod.conditions and pod.conditions["Ready"].true


def _loss(pod: PodView) -> tuple[bool, int, int, int]:
    """What would be lost: (whether it takes traffic, cost given before, requests in steps of two, captured percent).

    The gate of a pod that is shown as ready may just have closed: the kubelet has not followed yet.
    """
    report = pod.report
    if report is None:
        return pod.ready, pod.deletion_cost, 1, 0
    captured = [captured_percent(phase) for phase in (report.prompt, report.decode)]
    percents = [percent for percent in captured if percent is not None]
    # In powers of two, or a choice would change with every request that comes or ends.
    return pod.ready, pod.deletion_cost, report.requests.running.bit_length(), min(percents, default=100)


def _ready_since(pod: PodView) -> datetime:
    return pod.conditions["Ready"].since or _LONG_AGO


def _said(pod: PodView) -> str:
    if not pod.ready:
        return "its gate has closed"
    if pod.report is None:
        return "it has not reported"
    return f"{pod.report.requests.running} requests run there"
