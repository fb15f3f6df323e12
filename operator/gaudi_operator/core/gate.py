"""The gate of a pod: opened when its report meets the thresholds, closed only on positive evidence.

An unreachable pod, a late or unreadable report and an operator that was away change nothing. The condition's
message records the container, the instance and the plan that were judged, so that any later operator sees from
the pod alone whether the judgement still stands for what runs now (docs/architecture.md, The gate).
"""

import re
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.warmup import Readiness, Shortfall
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.names import GATE
from gaudi_operator.core.percent import counts, first_left_out, shortfalls
from gaudi_operator.core.pods import PodView
from gaudi_runtime.contract.report import Phase, WarmupReport

_RECORD = re.compile(r"Container (\S+), instance (\S+), plan (\S+)\.$")


SETTLE_SECONDS = 10
"""A pod whose gate has just opened is not ready until the kubelet has looked; that is no loss."""


@dataclass(frozen=True)
class Record:
    """What an open gate was judged for."""

    container: str
    instance: str
    plan: str


def record_of(pod: PodView) -> Record | None:
    """The record in the message of the pod's gate; None when there is none, or none of ours."""
    match = _RECORD.search(pod.conditions[GATE].message) if GATE in pod.conditions else None
    return Record(*match.groups()) if match else None


def judge(pod: PodView, readiness: Readiness) -> SetGate | None:
    """What is to be written into the gate of `pod`; None when it stands right or nothing is known."""
    if not pod.active:
        return None
    if pod.report is not None and pod.container is not None:
        missing = why_below(pod.report, readiness)
        if missing is None:
            return _open(pod, Record(pod.container.id, pod.report.instance, pod.report.plan_hash), readiness)
        return _close(pod, *missing) if pod.gate_open else None
    if pod.gate_open and (lost := _lost_container(pod)):
        return _close(pod, *lost)
    return None


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


def _open(pod: PodView, record: Record, readiness: Readiness) -> SetGate | None:
    if pod.gate_open and record_of(pod) == record:
        return None
    assert pod.report is not None  # noqa: S101 - judge() opens on a report only
    missing = shortfalls(pod.report, readiness)
    reason = "OpenedBelowThreshold" if missing else "WarmedUp"
    found = f"Below the thresholds, but to be served: {'; '.join(missing)}" if missing else counts(pod.report)
    text = (
        f"{found[0].upper()}{found[1:]}. Container {record.container}, instance {record.instance}, plan {record.plan}."
    )
    return SetGate(pod.name, pod.uid, True, reason, text)


def _close(pod: PodView, reason: str, message: str) -> SetGate:
    return SetGate(pod.name, pod.uid, False, reason, message)


def _lost_container(pod: PodView) -> tuple[str, str] | None:
    """Reason and sentence when the container that was judged is gone, as the kubelet says."""
    container, record = pod.container, record_of(pod)
    if container is None:
        return None
    if not container.running:
        state = container.waiting_reason or container.last_exit or "not running"
        return "ContainerNotRunning", f"The container does not run ({state}); it must warm up again."
    if record is not None and container.id != record.container:
        return (
            "ContainerRestarted",
            f"Container {container.id} has replaced {record.container}, which was judged; it must warm up again.",
        )
    return None
