"""Gates of pods whose requests wait for compiles (docs/conditions.md, Recompiles while serving).

A gate closes above readiness.maxRecompiles within five minutes and opens after five minutes without any: what lies
between changes nothing. Its own condition remembers why it is closed, so any later operator goes on from there. Fewer
pods than promised never serve for its sake.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Readiness
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.gate import SETTLE_SECONDS, judge
from gaudi_operator.core.names import GATE
from gaudi_operator.core.pods import PodView

RECOMPILING = "Recompiling"


def judge_gates(pods: Sequence[PodView], readiness: Readiness, promised: int, now: datetime) -> list[SetGate]:
    """All gates to be written. `promised` pods, and at least one, stay in traffic whatever they compile."""
    found = {pod.uid: gate for pod in pods if (gate := judge(pod, readiness))}
    if readiness.on_recompiles is OnRecompiles.CLOSE_GATE:
        closing = {uid for uid, gate in found.items() if not gate.open}
        serving = [pod for pod in pods if pod.ready and pod.uid not in closing]
        spare = len(serving) - max(1, promised)
        coming = sum(_is_coming(pod, now) for pod in pods)
        waiting = [pod.uid for pod in _calmest_first(pods) if pod.uid in found and _is_kept_closed(pod)]
        for uid in waiting[max(0, -spare - coming) :]:
            del found[uid]
        found |= {pod.uid: _close(pod) for pod in _hottest(serving, readiness)[: max(0, spare)]}
    return list(found.values())


def _hottest(serving: Iterable[PodView], readiness: Readiness) -> list[PodView]:
    """The pods above the limit, worst first."""
    return [pod for pod in _calmest_first(serving) if _recent(pod) > readiness.max_recompiles][::-1]


def _calmest_first(pods: Iterable[PodView]) -> list[PodView]:
    return sorted(pods, key=lambda pod: (_recent(pod), pod.name))


def _is_kept_closed(pod: PodView) -> bool:
    """Whether its gate was closed for recompiles, and some are still recent."""
    return GATE in pod.conditions and pod.conditions[GATE].reason == RECOMPILING and _recent(pod) > 0


def _is_coming(pod: PodView, now: datetime) -> bool:
    """Whether its gate has just opened: the kubelet has not looked yet."""
    since = pod.conditions[GATE].since if pod.active and pod.gate_open and not pod.ready else None
    return since is not None and now - since <= timedelta(seconds=SETTLE_SECONDS)


def _recent(pod: PodView) -> int:
    return pod.report.recent_recompiles if pod.report else 0


def _close(pod: PodView) -> SetGate:
    waited = f"Requests waited for {_recent(pod)} compiles within five minutes"
    message = f"{waited}; the gate opens after five minutes without any."
    return SetGate(pod.name, pod.uid, False, RECOMPILING, message)
