"""The back-off of a revision: the pause before the next pod is created after pods of the revision have ended.

The kubelet delays restarts of a container within its pod. If a whole pod ends or is replaced, the ReplicaSet creates
the next pod immediately, and the restart counts of its containers start at zero. Therefore the operator counts the
terminations of each revision. It reads them from the pods and, for deleted pods, from the written status
(docs/how-to/revisions.md, When pods terminate repeatedly).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gaudi_operator.api.base import MOST_COUNT
from gaudi_operator.api.v1alpha1.status import (
    BackOff,
    GaudiInferenceStatus,
    LastTermination,
    RevisionStatus,
    RevisionTermination,
)
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.terminations import PodEnd, pod_ends
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.resolution import make_problem
from gaudi_operator.core.text_formats import format_timestamp, parse_timestamp
from gaudi_runtime.errors import Problem

FIRST_SECONDS, MOST_SECONDS = 10, 300
"""The back-off after two terminations in a row, and its maximum. Each further termination doubles the back-off."""

FORGOTTEN = timedelta(seconds=600)
"""A termination that follows the previous termination by more than this time starts a new count."""


@dataclass(frozen=True)
class FailureRecord:
    """The last termination of a revision's pods and the current back-off of the revision."""

    last_termination: RevisionTermination | None = None
    back_off: BackOff | None = None

    def active_back_off(self, deadlines: Deadlines) -> BackOff | None:
        """Return the back-off if it has not expired."""
        over = self.back_off is None or deadlines.has_passed(datetime.fromisoformat(self.back_off.until), 0)
        return None if over else self.back_off


def failure_records(
    pods: Iterable[PodView], before: GaudiInferenceStatus, found: Mapping[str, LastTermination]
) -> dict[str, FailureRecord]:
    """Return the failure record of each revision, from the written status and the terminations since then.

    `found` contains the terminations by pod name.
    """
    known = {row.name: _read_record(row) for row in before.revisions}
    mine: dict[str, list[PodView]] = {name: [] for name in known}
    for pod in pods:
        mine.setdefault(pod.revision, []).append(pod)
    return {name: _update_record(known.get(name, FailureRecord()), each, found) for name, each in mine.items()}


def _read_record(row: RevisionStatus) -> FailureRecord:
    """Return the failure record of a status row.

    Entries with invalid times are ignored, because other clients may write the status.
    """
    error, pause = row.last_termination, row.back_off
    return FailureRecord(
        error if error and parse_timestamp(error.time) else None,
        pause if pause and parse_timestamp(pause.since) and parse_timestamp(pause.until) else None,
    )


def limit_for_back_off(
    replicas: Mapping[str, int], pods: Iterable[PodView], known: Mapping[str, FailureRecord], deadlines: Deadlines
) -> dict[str, int]:
    """Return `replicas` by revision. The number is reduced for revisions in back-off, so that they get no new pods.

    Pods that are or were ready stay. Pods that were created before the last termination stay, too. A pod that was
    created in the same second as the termination stays if a node has accepted it. Pods that were created later are
    removed, because they are only seconds old.
    """
    pauses = {name: pause for name in replicas if name in known and (pause := known[name].active_back_off(deadlines))}
    seen = [pod for pod in pods if pod.is_active]
    return {
        name: min(count, _count_kept_pods(seen, name, pauses[name])) if name in pauses else count
        for name, count in replicas.items()
    }


def add_back_off(
    problem: Problem | None, known: FailureRecord | None, active: int, desired: int, deadlines: Deadlines
) -> Problem | None:
    """Return the `problem` of a revision. If the revision is in back-off, add the time of the next pod.

    `active` is the number of existing pods. If it is 0, the back-off itself is the problem.
    """
    if known is None or active >= desired:
        return problem
    pause, error = known.active_back_off(deadlines), known.last_termination
    if pause is None:
        return problem
    tries = f"{pause.failures} attempts in a row ended before a pod served"
    if problem:
        return replace(
            problem, message=f"{problem.message} {tries}. The operator creates the next pod at {pause.until}."
        )
    if active or error is None:
        return None
    said = f"{tries}, the last one with pod {error.pod}: {error.message.rstrip('.')}."
    since = parse_timestamp(pause.first or pause.since)
    return make_problem("PodsFail", f"{said} The operator creates the next pod at {pause.until}.", since)


def _update_record(known: FailureRecord, pods: list[PodView], found: Mapping[str, LastTermination]) -> FailureRecord:
    """Return the written record, updated with the terminations that are not counted yet."""
    proven = max((since for pod in pods if pod.is_ready and (since := pod.open_since)), default=None)
    error, back_off = known.last_termination, known.back_off
    for end in pod_ends(pods, found):
        # Times have a resolution of one second. A termination in the same second as the last counted termination is not
        # counted.
        if error is None or end.at > datetime.fromisoformat(error.time):
            error = RevisionTermination(time=format_timestamp(end.at), pod=end.pod, message=end.sentence)
            back_off = _next_back_off(back_off, end) if end.counts and (proven is None or end.at > proven) else back_off
    if back_off and proven and proven >= datetime.fromisoformat(back_off.since):
        back_off = None
    return FailureRecord(error, back_off)


def _next_back_off(known: BackOff | None, end: PodEnd) -> BackOff:
    """Return the back-off after the end of a pod. If the pod started before the last counted end, return `known`.

    Such a pod belongs to the same attempt, so its end is not counted.
    """
    since = datetime.fromisoformat(known.since) if known else None
    if known and since and end.began < since:
        return known
    goes_on = known if known and since and end.at - since <= FORGOTTEN else None
    failures = min(MOST_COUNT, goes_on.failures + 1) if goes_on else 1
    ended, pause = format_timestamp(end.at), timedelta(seconds=_back_off_seconds(failures))
    first = (goes_on.first or goes_on.since) if goes_on else ended
    return BackOff(failures=failures, first=first, since=ended, until=format_timestamp(end.at + pause))


def _back_off_seconds(failures: int) -> int:
    # Limit the shift, because any client that can write the status can set a large number of failures.
    return 0 if failures < 2 else min(MOST_SECONDS, FIRST_SECONDS << min(failures - 2, 8))


def _count_kept_pods(active: Iterable[PodView], revision: str, pause: BackOff) -> int:
    """Return how many pods stay. A LeaderWorkerSet also keeps all pods with lower ordinals than a pod that stays."""
    since = datetime.fromisoformat(pause.since)
    staying = [pod for pod in active if pod.revision == revision and _is_kept(pod, since)]
    return max([len(staying), *(1 + pod.ordinal for pod in staying if pod.ordinal is not None)])


def _is_kept(pod: PodView, since: datetime) -> bool:
    # Attempts begin when pods end. A pod that was created before the last counted end belongs to the attempt of the
    # ended pod, and may still become ready.
    if pod.has_gate_condition or pod.created is None or pod.created < since:
        return True
    return pod.created == since and pod.container is not None
