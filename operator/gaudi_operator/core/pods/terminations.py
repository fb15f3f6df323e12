"""How pods and their containers ended.

`last_errors` is the sentence per pod that the status keeps after the container, and its report, are gone. `ends` are
the moments at which pods of a revision, and containers in them, ended by themselves, as far as they show it: the
back-off counts them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, PodState
from gaudi_operator.core.observed import PodReport
from gaudi_operator.core.pods.view import Container, PodView
from gaudi_runtime.contract.report import Phase, WarmupReport

MAX_TEXT = 1024


def last_errors(
    pods: Iterable[PodView], before: GaudiInferenceStatus, reports: Mapping[str, PodReport]
) -> dict[str, str]:
    """By pod, such as "In phase Compiling at prompt bucket (1, 128, 0): Error, exit code 139: Segmentation fault".

    `before` is the written status, `reports` the last word of each pod by its UID. First containers have none.
    """
    rows = {row.name: row for row in before.pods}
    found = {pod.name: _last_error(pod, rows, reports) for pod in pods}
    return {name: text for name, text in found.items() if text}


def _last_error(pod: PodView, before: Mapping[str, PodState], reports: Mapping[str, PodReport]) -> str | None:
    ended = pod.ended or (pod.container.last_exit if pod.container else None)
    if ended is None:
        return None
    known = before.get(pod.name)
    if known is not None and known.last_error and known.last_error.endswith(ended[-MAX_TEXT // 2 :]):
        return known.last_error
    return f"{_where(pod.container, reports.get(pod.uid), known)}{ended}"[:MAX_TEXT]


def at_work(report: WarmupReport) -> str:
    """ "phase Compiling at prompt bucket (1, 128, 0)": what a runtime was doing last, or how it failed."""
    if report.failure is not None:
        return f"phase {report.phase} ({report.failure.reason}: {report.failure.message})"
    for phase, progress in (("prompt", report.prompt), ("decode", report.decode)):
        if progress.current is not None:
            return f"phase {report.phase} at {phase} bucket {progress.current}"
    return f"phase {report.phase}"


def _where(container: Container | None, word: PodReport | None, known: PodState | None) -> str:
    """From the last report, if it is not that of the container which runs now; else from the written status."""
    if word is not None and word.report is not None:
        of_the_ended = container is None or not container.running or word.container_id != container.id
        return f"In {at_work(word.report)}: " if of_the_ended else ""
    return f"In phase {known.phase}: " if known is not None and known.phase in set(Phase) else ""


@dataclass(frozen=True)
class End:
    """What began and ended in `pod`, and how. Only with `counts` it speaks against new pods of the revision."""

    pod: str
    began: datetime
    at: datetime
    said: str
    counts: bool


def ends(pods: Sequence[PodView], last_errors: Mapping[str, str]) -> list[End]:
    """Of the pods of one revision, oldest first; `last_errors` are by pod.

    A pod that is being deleted ends because somebody asked for it, unless its node says why. One that has served proves
    that its revision works. While others serve, a container that its kubelet starts again is no reason to make no
    further pod.
    """
    serves = any(pod.ready for pod in pods)
    found = (end for pod in pods for each in (pod, *pod.workers) if (end := _end(each, pod, last_errors, serves)))
    return sorted(found, key=lambda end: (end.at, end.pod))


def _end(pod: PodView, replica: PodView, last_errors: Mapping[str, str], serves: bool) -> End | None:
    """Of a pod of `replica`, which is a group or the pod itself."""
    container, ended = pod.container, pod.ended_at
    if pod.ended and ended and (pod.ended_by_node or not pod.terminating):
        said = last_errors.get(pod.name, pod.ended)
        return End(pod.name, pod.created or ended, ended, said, not replica.served)
    if pod.ended or pod.terminating or container is None or not container.last_exit or not container.last_ended:
        return None
    said = last_errors.get(pod.name, container.last_exit)
    began = container.last_began or container.last_ended
    return End(pod.name, began, container.last_ended, said, not replica.served and not serves)
