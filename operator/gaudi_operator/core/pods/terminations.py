"""How pods and their containers ended.

A Termination holds the facts and one sentence for people: decisions read the facts. Both are kept in status.pods, as
the report that knew phase and bucket is gone with its container, and the operator that read it may be gone too. Ends
are those moments of a revision's pods that the back-off counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, LastTermination, PodState
from gaudi_operator.core.notation import timestamp
from gaudi_operator.core.observed import PodReport
from gaudi_operator.core.pods.view import PodView
from gaudi_runtime.contract.report import Phase, WarmupReport

MAX_TEXT = 1024
MAX_REASON = 64


@dataclass(frozen=True)
class Termination:
    """How the last container of a pod, or the pod as a whole, ended.

    `phase` is the runtime's then, `bucket` what it compiled or captured, each None where nobody knows. `sentence` is
    such as "In phase Compiling at prompt bucket (1, 128, 0): Error, exit code 139: Segmentation fault".
    """

    facts: LastTermination
    sentence: str

    @property
    def phase(self) -> Phase | None:
        """The phase of the runtime; one of another release counts as unknown."""
        return Phase(self.facts.phase) if self.facts.phase in set(Phase) else None


def terminations(
    pods: Iterable[PodView], before: GaudiInferenceStatus, reports: Mapping[str, PodReport]
) -> dict[str, Termination]:
    """By pod. `before` is the written status, `reports` the last word of each pod by its UID.

    Pods whose first container runs have none.
    """
    rows = {row.name: row for row in before.pods}
    found = ((pod.name, _termination(pod, rows.get(pod.name), reports.get(pod.uid))) for pod in pods)
    return {name: each for name, each in found if each}


def _termination(pod: PodView, known: PodState | None, word: PodReport | None) -> Termination | None:
    last = pod.container.last_exit if pod.container else None
    ended = pod.ended or (str(last) if last else None)
    if ended is None:
        return None
    at = pod.ended_at or (last.ended if last else None)
    bare = LastTermination(
        time=timestamp(at) if at else None,
        reason=(pod.ended_reason or (last.reason if last else "Failed"))[:MAX_REASON],
        exit_code=last.exit_code if last else None,
    )
    # The written one knows more: phase and bucket were read from a report that may be that of the next container now.
    if known is not None and known.last_termination and _same(known.last_termination, bare):
        return Termination(known.last_termination, known.last_error or ended[:MAX_TEXT])
    report = _of_the_ended(pod, word)
    if report is not None:
        facts = bare.model_copy(update={"phase": report.phase.value, "bucket": bucket_in_work(report)})
        return Termination(facts, f"In {at_work(report)}: {ended}"[:MAX_TEXT])
    # Without a report of this operator's own the written row tells the phase, if no report of the next one has come.
    if word is None or word.report is None:
        phase = known.phase if known is not None and known.phase in set(Phase) else None
        where = f"In phase {phase}: " if phase else ""
        return Termination(bare.model_copy(update={"phase": phase}), f"{where}{ended}"[:MAX_TEXT])
    return Termination(bare, ended[:MAX_TEXT])


def _same(known: LastTermination, bare: LastTermination) -> bool:
    return (known.time, known.reason, known.exit_code) == (bare.time, bare.reason, bare.exit_code)


def _of_the_ended(pod: PodView, word: PodReport | None) -> WarmupReport | None:
    """The last report, if it is not that of the container which runs now."""
    container = pod.container
    speaks = container is None or not container.running or (word is not None and word.container_id != container.id)
    return word.report if word is not None and speaks else None


def bucket_in_work(report: WarmupReport) -> str | None:
    """Such as "prompt bucket (1, 128, 0)": what is being compiled or captured; None between two of them."""
    for phase, progress in (("prompt", report.prompt), ("decode", report.decode)):
        if progress.current is not None:
            return f"{phase} bucket {progress.current}"
    if report.vision and report.vision.current is not None:
        return f"vision bucket ({report.vision.current})"
    return None


def at_work(report: WarmupReport) -> str:
    """ "phase Compiling at prompt bucket (1, 128, 0)": what a runtime was doing last, or how it failed."""
    if report.failure is not None:
        return f"phase {report.phase} ({report.failure.reason}: {report.failure.message})"
    bucket = bucket_in_work(report)
    return f"phase {report.phase} at {bucket}" if bucket else f"phase {report.phase}"


@dataclass(frozen=True)
class End:
    """What began and ended in `pod`, and how. Only with `counts` it speaks against new pods of the revision."""

    pod: str
    began: datetime
    at: datetime
    sentence: str
    counts: bool


def ends(pods: Sequence[PodView], found: Mapping[str, Termination]) -> list[End]:
    """Of the pods of one revision, oldest first; `found` are terminations by pod.

    A pod that is being deleted ends because somebody asked for it, unless its node says why. One that has served
    proves that its revision works. While others serve, a container that its kubelet starts again is no reason to make
    no further pod.
    """
    serves = any(pod.ready for pod in pods)
    every = (end for pod in pods for each in (pod, *pod.workers) if (end := _end(each, pod, found, serves)))
    return sorted(every, key=lambda end: (end.at, end.pod))


def _end(pod: PodView, replica: PodView, found: Mapping[str, Termination], serves: bool) -> End | None:
    """Of a pod of `replica`, which is a group or the pod itself."""
    last, ended = pod.container.last_exit if pod.container else None, pod.ended_at
    if pod.ended and ended and (pod.ended_reason or not pod.terminating):
        sentence = found[pod.name].sentence if pod.name in found else pod.ended
        return End(pod.name, pod.created or ended, ended, sentence, not replica.served)
    # A pod that is deleted ends by our own SIGTERM, which says nothing of its revision.
    if pod.ended or pod.terminating or last is None or last.ended is None:
        return None
    sentence = found[pod.name].sentence if pod.name in found else str(last)
    return End(pod.name, last.began or last.ended, last.ended, sentence, not replica.served and not serves)
