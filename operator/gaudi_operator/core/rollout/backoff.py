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
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.terminations import PodTermination, pod_terminations
from gaudi_operator.core.problems.resolution import make_resolvable_problem
from gaudi_operator.core.text_formats import format_timestamp, parse_timestamp_text
from gaudi_runtime.errors import Problem

FIRST_SECONDS, MOST_SECONDS = 10, 300
"""The back-off after two terminations in a row, and its maximum. Each further termination doubles the back-off."""

FORGOTTEN = timedelta(seconds=600)
"""A termination that follows the previous termination by more than this time starts a new count."""


@dataclass(frozen=True)
class BackOffRecord:
    """The last termination of a revision's pods and the current back-off of the revision."""

    last_termination: RevisionTermination | None = None
    back_off: BackOff | None = None

    def active_back_off(self, deadlines: Deadlines) -> BackOff | None:
        """Return the back-off if it has not expired."""
        expired = self.back_off is None or deadlines.has_passed(datetime.fromisoformat(self.back_off.until), 0)
        return None if expired else self.back_off


def back_off_records(
    pods: Iterable[PodView],
    previous: GaudiInferenceStatus,
    terminations: Mapping[str, LastTermination],
    now: datetime,
) -> dict[str, BackOffRecord]:
    """Return the failure record of each revision, from the written status and the terminations since then.

    `terminations` contains the terminations by pod name. No back-off lasts longer than MOST_SECONDS from `now`.
    """
    records = {row.name: _read_record(row) for row in previous.revisions}
    pods_by_revision: dict[str, list[PodView]] = {name: [] for name in records}
    for pod in pods:
        pods_by_revision.setdefault(pod.revision, []).append(pod)
    return {
        name: _limit_back_off(_update_record(records.get(name, BackOffRecord()), revision_pods, terminations), now)
        for name, revision_pods in pods_by_revision.items()
    }


def _read_record(row: RevisionStatus) -> BackOffRecord:
    """Return the failure record of a status row.

    Entries with invalid times are ignored, because other clients may write the status.
    """
    termination, back_off = row.last_termination, row.back_off
    return BackOffRecord(
        termination if termination and parse_timestamp_text(termination.time) else None,
        back_off
        if back_off and parse_timestamp_text(back_off.since) and parse_timestamp_text(back_off.until)
        else None,
    )


def limit_for_back_off(
    replicas: Mapping[str, int], pods: Iterable[PodView], records: Mapping[str, BackOffRecord], deadlines: Deadlines
) -> dict[str, int]:
    """Return `replicas` by revision. The number is reduced for revisions in back-off, so that they get no new pods.

    Pods that are or were ready stay. Pods that were created before the last termination stay, too. A pod that was
    created in the same second as the termination stays if a node has accepted it. Pods that were created later are
    removed, because they are only seconds old.
    """
    back_offs = {
        name: back_off
        for name in replicas
        if name in records and (back_off := records[name].active_back_off(deadlines))
    }
    active = [pod for pod in pods if pod.is_active]
    return {
        name: min(count, _count_kept_pods(active, name, back_offs[name])) if name in back_offs else count
        for name, count in replicas.items()
    }


def add_back_off_to_problem(
    problem: Problem | None, record: BackOffRecord | None, active_pods: int, desired_replicas: int, deadlines: Deadlines
) -> Problem | None:
    """Return the `problem` of a revision. If the revision is in back-off, add the time of the next pod.

    `active_pods` is the number of existing pods. If it is 0, the back-off itself is the problem.
    """
    if record is None or active_pods >= desired_replicas:
        return problem
    back_off, termination = record.active_back_off(deadlines), record.last_termination
    if back_off is None:
        return problem
    attempts = f"{back_off.failures} attempts in a row ended before a pod served"
    if problem:
        return replace(
            problem, message=f"{problem.message} {attempts}. The operator creates the next pod at {back_off.until}."
        )
    if active_pods or termination is None:
        return None
    summary = f"{attempts}, the last one with pod {termination.pod}: {termination.message.rstrip('.')}."
    since = parse_timestamp_text(back_off.first or back_off.since)
    return make_resolvable_problem(
        "PodsFail", f"{summary} The operator creates the next pod at {back_off.until}.", since
    )


def _limit_back_off(record: BackOffRecord, now: datetime) -> BackOffRecord:
    # The clock of a node sets the start of the back-off. If this clock is far ahead, the revision would get no pods for
    # a long time.
    latest, back_off = now + timedelta(seconds=MOST_SECONDS), record.back_off
    if back_off is None or datetime.fromisoformat(back_off.until) <= latest:
        return record
    return replace(record, back_off=back_off.model_copy(update={"until": format_timestamp(latest)}))


def _update_record(
    record: BackOffRecord, pods: list[PodView], terminations: Mapping[str, LastTermination]
) -> BackOffRecord:
    """Return the written record, updated with the terminations that are not counted yet."""
    last_opened = max((since for pod in pods if pod.is_ready and (since := pod.open_since)), default=None)
    termination, back_off = record.last_termination, record.back_off
    for end in pod_terminations(pods, terminations):
        # Times have a resolution of one second. A termination in the same second as the last counted termination is not
        # counted.
        if termination is None or end.ended_at > datetime.fromisoformat(termination.time):
            termination = RevisionTermination(
                time=format_timestamp(end.ended_at), pod=end.pod_name, message=end.message
            )
            if end.is_counted and (last_opened is None or end.ended_at > last_opened):
                back_off = _next_back_off(back_off, end)
    if back_off and last_opened and last_opened >= datetime.fromisoformat(back_off.since):
        back_off = None
    return BackOffRecord(termination, back_off)


def _next_back_off(previous: BackOff | None, end: PodTermination) -> BackOff:
    """Return the back-off after the end of a pod. If the pod started before the last counted end, return `previous`.

    Such a pod belongs to the same attempt, so its end is not counted.
    """
    since = datetime.fromisoformat(previous.since) if previous else None
    if previous and since and end.began_at < since:
        return previous
    ongoing = previous if previous and since and end.ended_at - since <= FORGOTTEN else None
    failures = min(MOST_COUNT, ongoing.failures + 1) if ongoing else 1
    end_time, pause = format_timestamp(end.ended_at), timedelta(seconds=_back_off_seconds(failures))
    first = (ongoing.first or ongoing.since) if ongoing else end_time
    return BackOff(failures=failures, first=first, since=end_time, until=format_timestamp(end.ended_at + pause))


def _back_off_seconds(failures: int) -> int:
    # Limit the shift, because any client that can write the status can set a large number of failures.
    return 0 if failures < 2 else min(MOST_SECONDS, FIRST_SECONDS << min(failures - 2, 8))


def _count_kept_pods(active: Iterable[PodView], revision: str, back_off: BackOff) -> int:
    """Return how many pods stay. A LeaderWorkerSet also keeps all pods with lower ordinals than a pod that stays."""
    since = datetime.fromisoformat(back_off.since)
    kept_pods = [pod for pod in active if pod.revision == revision and _is_kept(pod, since)]
    return max([len(kept_pods), *(1 + pod.ordinal for pod in kept_pods if pod.ordinal is not None)])


def _is_kept(pod: PodView, since: datetime) -> bool:
    # Attempts begin when pods end. A pod that was created before the last counted end belongs to the attempt of the
    # ended pod, and may still become ready.
    if pod.has_gate_condition or pod.created_at is None or pod.created_at < since:
        return True
    return pod.created_at == since and pod.container is not None
