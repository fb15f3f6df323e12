"""How a pod or its last container ended, kept in the status after the container, and its report, are gone."""

from collections.abc import Iterable, Mapping

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, PodState
from gaudi_operator.core.observed import PodReport
from gaudi_operator.core.pods import Container, PodView
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
