"""The judgement of a gate: it opens when a report meets the thresholds, and closes only on positive evidence.

An unreachable pod, a late or unreadable report and an operator that was away change nothing.
"""

from collections.abc import Sequence

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import JudgedInstance, judged_instance
from gaudi_operator.core.gate.recompiles import limit_recompiles
from gaudi_operator.core.gate.thresholds import counts, shortfalls, why_below
from gaudi_operator.core.pods.view import PodView

REOPEN_SECONDS = 1
"""A closed gate stays closed at least this long: a pod whose report flaps would cost two writes a second."""

WARMED_UP = "WarmedUp"
"""Reason of a gate that is open, with all thresholds met."""

BELOW_THRESHOLD = "OpenedBelowThreshold"
"""Reason of a gate that is open although thresholds are missed, as spec.readiness.onShortfall allows."""


def judge(pod: PodView, readiness: Readiness, deadlines: Deadlines) -> SetGate | None:
    """Return what to write into the gate of `pod`; None if it is right, nothing is known, or it is too soon."""
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
    since = pod.gate.since if pod.gate and not pod.gate_open else None
    return since is not None and not deadlines.reached(since, REOPEN_SECONDS)


def _open(pod: PodView, record: JudgedInstance, readiness: Readiness) -> SetGate | None:
    # An apply that changes nothing would still cost a request for each pod in each reconcile.
    if pod.gate_open and judged_instance(pod) == record:
        return None
    assert pod.report is not None  # noqa: S101 - judge() opens on a report only
    missing = shortfalls(pod.report, readiness)
    reason = BELOW_THRESHOLD if missing else WARMED_UP
    found = f"Below the thresholds, but to be served: {'; '.join(missing)}" if missing else counts(pod.report)
    text = f"{found[0].upper()}{found[1:]}. {record}"
    return SetGate(pod.name, pod.uid, True, reason, text, again=pod.gate is not None)


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


def judge_gates(
    pods: Sequence[PodView],
    readiness: Readiness,
    promised: int,
    deadlines: Deadlines,
    to_go: int = 0,
) -> list[SetGate]:
    """Return all gates to be written.

    `promised` pods, and at least one, keep serving whatever they compile, in addition to the `to_go` serving pods that
    the controllers of the workloads are about to remove.
    """
    found = {pod.uid: gate for pod in pods if (gate := judge(pod, readiness, deadlines))}
    limited = limit_recompiles(found, pods, readiness, promised, deadlines, to_go)
    return list(limited.values())
