"""Terminations of pods and containers: how they ended.

Terminations are stored in status.pods. Otherwise the report with phase and bucket would be lost when the container ends
or the leader changes. A PodEnd is a termination as the back-off counts it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, LastTermination, PodState
from gaudi_operator.core.observed import PodReport
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.text_formats import format_timestamp
from gaudi_runtime.contract.report import Phase, WarmupReport

MAX_TEXT = 1024
MAX_REASON = 64


def terminations_by_pod(
    pods: Iterable[PodView], before: GaudiInferenceStatus, reports: Mapping[str, PodReport]
) -> dict[str, LastTermination]:
    """Return the terminations by pod name. Pods whose first container still runs have no entry.

    `before` is the written status. `reports` contains the last report of each pod by UID.
    """
    rows = {row.name: row for row in before.pods}
    found = ((pod.name, _pod_termination(pod, rows.get(pod.name), reports.get(pod.uid))) for pod in pods)
    return {name: each for name, each in found if each}


def _pod_termination(pod: PodView, known: PodState | None, word: PodReport | None) -> LastTermination | None:
    last = pod.container.last_exit if pod.container else None
    ended = pod.ended or (str(last) if last else None)
    if ended is None:
        return None
    at = pod.ended_at or (last.ended if last else None)
    bare = LastTermination(
        time=format_timestamp(at) if at else None,
        reason=(pod.ended_reason or (last.reason if last else "Failed"))[:MAX_REASON],
        exit_code=last.exit_code if last else None,
        message=ended[:MAX_TEXT],
    )
    # Prefer the termination that is already in the status. The current report may be from the next container.
    if known is not None and known.last_termination and _is_same_termination(known.last_termination, bare):
        return known.last_termination
    report = _ended_container_report(pod, word)
    if report is not None:
        message = f"In {describe_activity(report)}: {ended}"[:MAX_TEXT]
        found = {"phase": report.phase.value, "bucket": describe_current_bucket(report), "message": message}
        return bare.model_copy(update=found)
    # Without a report of this container, use the phase that is already in the status.
    if word is None or word.report is None:
        phase = known.phase if known is not None and known.phase in set(Phase) else None
        where = f"In phase {phase}: " if phase else ""
        message = f"{where}{ended}"[:MAX_TEXT]
        return bare.model_copy(update={"phase": phase, "message": message})
    return bare


def _is_same_termination(known: LastTermination, bare: LastTermination) -> bool:
    return (known.time, known.reason, known.exit_code) == (bare.time, bare.reason, bare.exit_code)


def _ended_container_report(pod: PodView, word: PodReport | None) -> WarmupReport | None:
    """Return the last report of the pod if the report is from a container that has ended."""
    container = pod.container
    speaks = container is None or not container.running or (word is not None and word.container_id != container.id)
    return word.report if word is not None and speaks else None


def describe_current_bucket(report: WarmupReport) -> str | None:
    """Return the bucket at which a pod terminated, such as "prompt bucket (1, 128, 0)", or None between two buckets."""
    for phase, progress in (("prompt", report.prompt), ("decode", report.decode)):
        if progress.current is not None:
            return f"{phase} bucket {progress.current}"
    if report.vision and report.vision.current is not None:
        return f"vision bucket ({report.vision.current})"
    return None


def describe_activity(report: WarmupReport) -> str:
    """Return what a runtime was doing when it terminated, such as "phase Compiling at prompt bucket (1, 128, 0)".

    If the runtime reported a failure, the result contains the failure.
    """
    if report.failure is not None:
        return f"phase {report.phase} ({report.failure.reason}: {report.failure.message})"
    bucket = describe_current_bucket(report)
    return f"phase {report.phase} at {bucket}" if bucket else f"phase {report.phase}"


@dataclass(frozen=True)
class PodEnd:
    """The end of a pod or container, for the back-off. `counts` is True if this end may delay new pods."""

    pod: str
    began: datetime
    at: datetime
    sentence: str
    counts: bool


def pod_ends(pods: Sequence[PodView], found: Mapping[str, LastTermination]) -> list[PodEnd]:
    """Return the ends of one revision's pods, oldest first. `found` contains the terminations by pod name.

    Deleted pods are left out, unless their node reports a reason. The end of a pod that was ready does not count,
    because such a pod proves that the revision works. The restart of a container does not count while a pod of the
    revision serves.
    """
    serves = any(pod.is_ready for pod in pods)
    every = (end for pod in pods for each in (pod, *pod.workers) if (end := _pod_end(each, pod, found, serves)))
    return sorted(every, key=lambda end: (end.at, end.pod))


def _pod_end(pod: PodView, replica: PodView, found: Mapping[str, LastTermination], serves: bool) -> PodEnd | None:
    """Return the end of a pod, or None if it has not ended. `replica` is the group's leader, or the pod itself."""
    last, ended = pod.container.last_exit if pod.container else None, pod.ended_at
    if pod.ended and ended and (pod.ended_reason or not pod.terminating):
        sentence = found[pod.name].message if pod.name in found else pod.ended
        return PodEnd(pod.name, pod.created or ended, ended, sentence, not replica.has_gate_condition)
    # Deleting a pod also terminates its container. This termination is no failure of the revision.
    if pod.ended or pod.terminating or last is None or last.ended is None:
        return None
    sentence = found[pod.name].message if pod.name in found else str(last)
    return PodEnd(
        pod.name, last.began or last.ended, last.ended, sentence, not replica.has_gate_condition and not serves
    )
