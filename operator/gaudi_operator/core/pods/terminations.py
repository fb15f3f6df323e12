"""Terminations of pods and containers: how they ended.

Terminations are stored in status.pods. Otherwise the report with phase and bucket would be lost when the container ends
or the leader changes. A PodTermination is a termination as the back-off counts it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, LastTermination, PodState
from gaudi_operator.core.observed import ObservedReport
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.text_formats import format_timestamp
from gaudi_runtime.contract.report import Phase, WarmupReport

MAX_TEXT = 1024
MAX_REASON = 64


def terminations_by_pod(
    pods: Iterable[PodView], previous_status: GaudiInferenceStatus, reports: Mapping[str, ObservedReport]
) -> dict[str, LastTermination]:
    """Return the terminations by pod name. Pods whose first container still runs have no entry.

    `previous_status` is the written status. `reports` contains the last report of each pod by UID.
    """
    states = {state.name: state for state in previous_status.pods}
    terminations = ((pod.name, _pod_termination(pod, states.get(pod.name), reports.get(pod.uid))) for pod in pods)
    return {name: termination for name, termination in terminations if termination}


def _pod_termination(
    pod: PodView, previous: PodState | None, pod_report: ObservedReport | None
) -> LastTermination | None:
    last_exit = pod.container.last_exit if pod.container else None
    end_message = pod.end_message or (str(last_exit) if last_exit else None)
    if end_message is None:
        return None
    ended_at = pod.ended_at or (last_exit.ended_at if last_exit else None)
    termination = LastTermination(
        time=format_timestamp(ended_at) if ended_at else None,
        reason=(pod.ended_reason or (last_exit.reason if last_exit else "Failed"))[:MAX_REASON],
        exit_code=last_exit.exit_code if last_exit else None,
        message=end_message[:MAX_TEXT],
    )
    # Prefer the termination that is already in the status. The current report may be from the next container.
    if (
        previous is not None
        and previous.last_termination
        and _is_same_termination(previous.last_termination, termination)
    ):
        return previous.last_termination
    report = _ended_container_report(pod, pod_report)
    if report is not None:
        message = f"In {describe_activity_at_termination(report)}: {end_message}"[:MAX_TEXT]
        changes = {"phase": report.phase.value, "bucket": _describe_current_bucket(report), "message": message}
        return termination.model_copy(update=changes)
    # Without a report of this container, use the phase that is already in the status.
    if pod_report is None or pod_report.report is None:
        phase = previous.phase if previous is not None and previous.phase in set(Phase) else None
        prefix = f"In phase {phase}: " if phase else ""
        message = f"{prefix}{end_message}"[:MAX_TEXT]
        return termination.model_copy(update={"phase": phase, "message": message})
    return termination


def _is_same_termination(previous: LastTermination, current: LastTermination) -> bool:
    return (previous.time, previous.reason, previous.exit_code) == (current.time, current.reason, current.exit_code)


def _ended_container_report(pod: PodView, pod_report: ObservedReport | None) -> WarmupReport | None:
    """Return the last report of the pod if the report is from a container that has ended."""
    container = pod.container
    has_ended = (
        container is None
        or not container.running
        or (pod_report is not None and pod_report.container_id != container.id)
    )
    return pod_report.report if pod_report is not None and has_ended else None


def _describe_current_bucket(report: WarmupReport) -> str | None:
    """Return the bucket at which a pod terminated, such as "prompt bucket (1, 128, 0)", or None between two buckets."""
    for phase, progress in (("prompt", report.prompt), ("decode", report.decode)):
        if progress.current is not None:
            return f"{phase} bucket {progress.current}"
    if report.vision and report.vision.current is not None:
        return f"vision bucket ({report.vision.current})"
    return None


def describe_activity_at_termination(report: WarmupReport) -> str:
    """Return what a runtime was doing when it terminated, such as "phase Compiling at prompt bucket (1, 128, 0)".

    If the runtime reported a failure, the result contains the failure.
    """
    if report.failure is not None:
        return f"phase {report.phase} ({report.failure.reason}: {report.failure.message})"
    bucket = _describe_current_bucket(report)
    return f"phase {report.phase} at {bucket}" if bucket else f"phase {report.phase}"


@dataclass(frozen=True)
class PodTermination:
    """The end of a pod or container, for the back-off. `is_counted` is True if this end may delay new pods."""

    pod_name: str
    began_at: datetime
    ended_at: datetime
    message: str
    is_counted: bool


def pod_terminations(pods: Sequence[PodView], terminations: Mapping[str, LastTermination]) -> list[PodTermination]:
    """Return the ends of one revision's pods, oldest first. `terminations` contains the terminations by pod name.

    Deleted pods are left out, unless their node reports a reason. The end of a pod that was ready does not count,
    because such a pod proves that the revision works. The restart of a container does not count while a pod of the
    revision serves.
    """
    serves = any(pod.is_ready for pod in pods)
    ends = (
        end for pod in pods for member in (pod, *pod.workers) if (end := _pod_end(member, pod, terminations, serves))
    )
    return sorted(ends, key=lambda end: (end.ended_at, end.pod_name))


def _pod_end(
    pod: PodView, replica: PodView, terminations: Mapping[str, LastTermination], serves: bool
) -> PodTermination | None:
    """Return the end of a pod, or None if it has not ended. `replica` is the group's leader, or the pod itself."""
    last_exit, ended_at = pod.container.last_exit if pod.container else None, pod.ended_at
    if pod.end_message and ended_at and (pod.ended_reason or not pod.terminating):
        message = terminations[pod.name].message if pod.name in terminations else pod.end_message
        return PodTermination(pod.name, pod.created_at or ended_at, ended_at, message, not replica.has_gate_condition)
    # Deleting a pod also terminates its container. This termination is no failure of the revision.
    if pod.end_message or pod.terminating or last_exit is None or last_exit.ended_at is None:
        return None
    message = terminations[pod.name].message if pod.name in terminations else str(last_exit)
    return PodTermination(
        pod.name,
        last_exit.began_at or last_exit.ended_at,
        last_exit.ended_at,
        message,
        not replica.has_gate_condition and not serves,
    )
