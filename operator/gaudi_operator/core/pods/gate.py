"""The gate of a pod: opened when its report meets the thresholds, closed only on positive evidence.

An unreachable pod, a late or unreadable report and an operator that was away change nothing. The condition's
message records the container, the instance and the plan that were judged, so that any later operator sees from
the pod alone whether the judgement still stands for what runs now (docs/internals/architecture.md, The gate).

A gate also closes while requests wait for compiles (docs/reference/conditions.md, Recompiles while serving): above
readiness.maxRecompiles within five minutes, and it opens after five minutes without any; what lies between changes
nothing. Its own condition remembers why it is closed, so any later operator goes on from there. Fewer pods than
promised never serve for its sake.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Readiness, Shortfall
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import GATE
from gaudi_operator.core.notation import counts, first_left_out, shortfalls
from gaudi_operator.core.pods.view import PodCondition, PodView
from gaudi_runtime.contract.report import Phase, WarmupReport

_RECORD = re.compile(r" ?Container (\S+), instance (\S+), plan (\S+)\.$")

REOPEN_SECONDS = 1
"""A gate that has closed stays so for this long: a pod whose word changes all the time costs two writes a second."""

WARMED_UP = "WarmedUp"
"""Reason of a gate that has opened as it should."""

SETTLE_SECONDS = 10
"""A pod whose gate has just opened is not ready until the kubelet has looked; that is no loss."""


@dataclass(frozen=True)
class JudgedInstance:
    """What an open gate was judged for."""

    container: str
    instance: str
    plan: str


def judged_instance(pod: PodView) -> JudgedInstance | None:
    """The record in the message of the pod's gate; None when there is none, or none of ours."""
    # A pod condition has no field of its own for it; what stands in the message is written and read in this module
    # only.
    match = _RECORD.search(pod.conditions[GATE].message) if GATE in pod.conditions else None
    return JudgedInstance(*match.groups()) if match else None


def judged_counts(pod: PodView) -> str:
    """What stands in the message of the pod's gate beside the record: which graphs were captured."""
    return _RECORD.sub("", pod.conditions[GATE].message)


def judge(pod: PodView, readiness: Readiness, deadlines: Deadlines) -> SetGate | None:
    """What is to be written into the gate of `pod`; None when it stands right, nothing is known, or it is too soon."""
    if not pod.active:
        return None
    if pod.report is not None and pod.container is not None:
        missing = why_below(pod.report, readiness)
        if missing is None and _has_just_closed(pod, deadlines):
            return None
        if missing is None:
            return _open(pod, JudgedInstance(pod.container.id, pod.report.instance, pod.report.plan_hash), readiness)
        return _close(pod, *missing) if pod.gate_open else None
    if pod.gate_open and (lost := _lost_container(pod)):
        return _close(pod, *lost)
    return None


def _has_just_closed(pod: PodView, deadlines: Deadlines) -> bool:
    # Its own condition remembers when. Closing waits for nothing.
    since = pod.conditions[GATE].since if GATE in pod.conditions and not pod.gate_open else None
    return since is not None and not deadlines.reached(since, REOPEN_SECONDS)


def why_below(report: WarmupReport, readiness: Readiness) -> tuple[str, str] | None:
    """Reason and sentence why a report opens no gate; None when it does."""
    if report.failure is not None:
        return report.failure.reason, report.failure.message
    if report.phase is not Phase.SERVING:
        return "NotServing", f"The runtime is in phase {report.phase}."
    missing = shortfalls(report, readiness)
    if missing and readiness.on_shortfall is Shortfall.BLOCK:
        said = f"Warm-up ended below the thresholds: {'; '.join(missing)}."
        return "CapturedBelowThreshold", " ".join((said, *first_left_out(report, readiness)))
    return None


def _open(pod: PodView, record: JudgedInstance, readiness: Readiness) -> SetGate | None:
    # An apply that changes nothing would still cost a request for each pod in each reconcile.
    if pod.gate_open and judged_instance(pod) == record:
        return None
    assert pod.report is not None  # noqa: S101 - judge() opens on a report only
    missing = shortfalls(pod.report, readiness)
    reason = "OpenedBelowThreshold" if missing else WARMED_UP
    found = f"Below the thresholds, but to be served: {'; '.join(missing)}" if missing else counts(pod.report)
    text = (
        f"{found[0].upper()}{found[1:]}. Container {record.container}, instance {record.instance}, plan {record.plan}."
    )
    return SetGate(pod.name, pod.uid, True, reason, text, again=GATE in pod.conditions)


def _close(pod: PodView, reason: str, message: str) -> SetGate:
    return SetGate(pod.name, pod.uid, False, reason, message)


def _lost_container(pod: PodView) -> tuple[str, str] | None:
    """Reason and sentence when the container that was judged is gone, as the kubelet says."""
    container, record = pod.container, judged_instance(pod)
    if container is None:
        return None
    if not container.running:
        state = container.waiting_reason or str(container.last_exit or "not running")
        return "ContainerNotRunning", f"The container does not run ({state}); it must warm up again."
    if record is not None and container.id != record.container:
        return (
            "ContainerRestarted",
            f"Container {container.id} has replaced {record.container}, which was judged; it must warm up again.",
        )
    return None


RECOMPILING = "Recompiling"


def judge_gates(
    pods: Sequence[PodView],
    readiness: Readiness,
    promised: int,
    deadlines: Deadlines,
    to_go: int = 0,
    *,
    may_close: bool = True,
) -> list[SetGate]:
    """All gates to be written. `promised` pods, and at least one, stay in traffic whatever they compile, beside `to_go`
    of those that serve: the workloads' controllers are about to take so many. `may_close` is whether pods may be closed
    because they compile.
    """
    found = {pod.uid: gate for pod in pods if (gate := judge(pod, readiness, deadlines))}
    if readiness.on_recompiles is OnRecompiles.CLOSE_GATE:
        closing = {uid for uid, gate in found.items() if not gate.open}
        serving = [pod for pod in pods if pod.ready and pod.uid not in closing]
        # Slow answers beat none: at least one pod serves on whatever it compiles.
        spare = len(serving) - to_go - max(1, promised)
        coming = sum(is_settling(pod, deadlines) for pod in pods)
        # A gate that may open again goes back before another one closes, or both could be shut at once.
        waiting = [pod.uid for pod in _calmest_first(pods) if pod.uid in found and _is_kept_closed(pod)]
        for uid in waiting[max(0, -spare - coming) :]:
            del found[uid]
        if may_close:
            found |= {pod.uid: _close_for_recompiles(pod) for pod in _hottest(serving, readiness)[: max(0, spare)]}
    return list(found.values())


def _hottest(serving: Iterable[PodView], readiness: Readiness) -> list[PodView]:
    """The pods above the limit, worst first."""
    return [pod for pod in _calmest_first(serving) if _recent(pod) > readiness.max_recompiles][::-1]


def _calmest_first(pods: Iterable[PodView]) -> list[PodView]:
    return sorted(pods, key=lambda pod: (_recent(pod), pod.name))


def _is_kept_closed(pod: PodView) -> bool:
    """Whether its gate was closed for recompiles, and some are still recent."""
    return GATE in pod.conditions and pod.conditions[GATE].reason == RECOMPILING and _recent(pod) > 0


def is_settling(pod: PodView, deadlines: Deadlines) -> bool:
    """Whether its gate has just opened: the kubelet has not looked yet."""
    since = pod.conditions[GATE].since if pod.active and pod.gate_open and not pod.ready else None
    return since is not None and not deadlines.reached(since, SETTLE_SECONDS)


def with_gates(pods: Iterable[PodView], gates: Iterable[SetGate], now: datetime) -> tuple[PodView, ...]:
    """The pods as they are once `gates` are written: all else in a reconcile goes by that."""
    written = {gate.uid: gate for gate in gates}
    return tuple(_with_gate(pod, written[pod.uid], now) if pod.uid in written else pod for pod in pods)


def _with_gate(pod: PodView, gate: SetGate, now: datetime) -> PodView:
    known = pod.conditions.get(GATE)
    # The API server keeps the transition time of a condition whose status stays.
    since = known.since if known is not None and known.true == gate.open else now
    return replace(pod, conditions={**pod.conditions, GATE: PodCondition(gate.open, gate.reason, gate.message, since)})


def _recent(pod: PodView) -> int:
    return pod.report.recent_recompiles if pod.report else 0


def _close_for_recompiles(pod: PodView) -> SetGate:
    waited = f"Requests waited for {_recent(pod)} compiles within five minutes"
    message = f"{waited}; the gate opens after five minutes without any."
    return SetGate(pod.name, pod.uid, False, RECOMPILING, message)
