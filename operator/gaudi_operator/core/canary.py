"""The canary: the first pod of a revision, which must hold its gate before the next one starts (docs/revisions.md)."""

from collections.abc import Iterable
from datetime import datetime

from gaudi_operator.core.names import GATE
from gaudi_operator.core.pods import PodView


def on_trial(revision: str, stable: str | None, pods: Iterable[PodView], observe_seconds: int, now: datetime) -> bool:
    """Whether at most one pod of `revision` may run: pods of others serve, and none of its own has proven itself.

    The `stable` revision has proven itself before. With nothing to protect, all pods start at once.
    """
    active = [pod for pod in pods if pod.active]
    if revision == stable or not any(pod.served for pod in active if pod.revision != revision):
        return False
    mine = [pod for pod in active if pod.revision == revision]
    return not any(pod.ready and observed_seconds(pod, now) >= observe_seconds for pod in mine)


def observed_seconds(pod: PodView, now: datetime) -> float:
    """For how long the pod has held its gate; 0 while it is closed."""
    since = pod.conditions[GATE].since if pod.gate_open else None
    return max(0.0, (now - since).total_seconds()) if since else 0.0
