"""How long no new pod of a revision is made after its pods have ended.

A kubelet delays the restarts of one container in one pod. A pod that ends as a whole, or is replaced, is recreated at
once by the ReplicaSet, and its containers begin to count at zero. So the same figures are counted here once more, by
revision: from the ends that pods show, and from the written status, which remembers the pods that are gone
(docs/how-to/revisions.md, When pods end again and again).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gaudi_operator.api.base import MOST_COUNT
from gaudi_operator.api.v1alpha1.status import BackOff, GaudiInferenceStatus, LastError, RevisionStatus
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.notation import read_moment, timestamp
from gaudi_operator.core.pods.terminations import End, Termination, ends
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.mending import problem_since
from gaudi_runtime.errors import Problem

FIRST_SECONDS, MOST_SECONDS = 10, 300
"""The pause after the second end in a row, doubled after each further one; the first is followed by none."""

FORGOTTEN = timedelta(seconds=600)
"""An end so long after the one before it begins a new count."""


@dataclass(frozen=True)
class Attempts:
    """What is remembered of the ends of a revision's pods."""

    last_error: LastError | None = None
    back_off: BackOff | None = None

    def pause(self, deadlines: Deadlines) -> BackOff | None:
        """The back-off while it lasts."""
        over = self.back_off is None or deadlines.reached(datetime.fromisoformat(self.back_off.until), 0)
        return None if over else self.back_off


def attempts(
    pods: Iterable[PodView], before: GaudiInferenceStatus, found: Mapping[str, Termination]
) -> dict[str, Attempts]:
    """By revision: what the written status remembers, and what has ended since; `found` are by pod."""
    known = {row.name: _written(row) for row in before.revisions}
    mine: dict[str, list[PodView]] = {name: [] for name in known}
    for pod in pods:
        mine.setdefault(pod.revision, []).append(pod)
    return {name: _attempts(known.get(name, Attempts()), each, found) for name, each in mine.items()}


def _written(row: RevisionStatus) -> Attempts:
    """Whoever may write a status may write times there that are none: those remember nothing."""
    error, pause = row.last_error, row.back_off
    return Attempts(
        error if error and read_moment(error.time) else None,
        pause if pause and read_moment(pause.since) and read_moment(pause.until) else None,
    )


def without_new_pods(
    replicas: Mapping[str, int], pods: Iterable[PodView], known: Mapping[str, Attempts], deadlines: Deadlines
) -> dict[str, int]:
    """`replicas` by revision without new pods of those that back off.

    What serves or has served stays, and what was there before the last end, or was taken by a node in the same second.
    A pod that the ReplicaSet has made since then, at once as it does, goes again: it is seconds old.
    """
    pauses = {name: pause for name in replicas if name in known and (pause := known[name].pause(deadlines))}
    seen = [pod for pod in pods if pod.active]
    return {
        name: min(count, _standing(seen, name, pauses[name])) if name in pauses else count
        for name, count in replicas.items()
    }


def with_next_try(
    problem: Problem | None, known: Attempts | None, active: int, desired: int, deadlines: Deadlines
) -> Problem | None:
    """Add to the `problem` of a revision when its next pod is made, while it backs off.

    Without an `active` pod of `desired` ones the back-off is itself the problem.
    """
    if known is None or active >= desired:
        return problem
    pause, error = known.pause(deadlines), known.last_error
    if pause is None:
        return problem
    tries = f"{pause.failures} tries in a row ended before a pod served"
    if problem:
        return replace(problem, message=f"{problem.message} {tries}: no new pod is made before {pause.until}.")
    if active or error is None:
        return None
    said = f"{tries}, the last one with pod {error.pod}: {error.message.rstrip('.')}."
    since = read_moment(pause.first or pause.since)
    return problem_since("PodsFail", f"{said} The next pod is made at {pause.until}.", since)


def _attempts(known: Attempts, pods: list[PodView], found: Mapping[str, Termination]) -> Attempts:
    """The written one goes on: what it has counted is not counted again, however long a pod is there to be seen."""
    proven = max((since for pod in pods if pod.ready and (since := pod.open_since)), default=None)
    error, back_off = known.last_error, known.back_off
    for end in ends(pods, found):
        # Times are whole seconds: an end in the second of the last one counted is taken for the same.
        if error is None or end.at > datetime.fromisoformat(error.time):
            error = LastError(time=timestamp(end.at), pod=end.pod, message=end.sentence)
            back_off = _counted(back_off, end) if end.counts and (proven is None or end.at > proven) else back_off
    if back_off and proven and proven >= datetime.fromisoformat(back_off.since):
        back_off = None
    return Attempts(error, back_off)


def _counted(known: BackOff | None, end: End) -> BackOff:
    """A try is over with its first end: the others that began before it are of the same try."""
    since = datetime.fromisoformat(known.since) if known else None
    if known and since and end.began < since:
        return known
    goes_on = known if known and since and end.at - since <= FORGOTTEN else None
    failures = min(MOST_COUNT, goes_on.failures + 1) if goes_on else 1
    ended, pause = timestamp(end.at), timedelta(seconds=_pause_seconds(failures))
    first = (goes_on.first or goes_on.since) if goes_on else ended
    return BackOff(failures=failures, first=first, since=ended, until=timestamp(end.at + pause))


def _pause_seconds(failures: int) -> int:
    # The shift is bounded before it is made: the count comes from a status that anybody may have written.
    return 0 if failures < 2 else min(MOST_SECONDS, FIRST_SECONDS << min(failures - 2, 8))


def _standing(active: Iterable[PodView], revision: str, pause: BackOff) -> int:
    """Pods that stay; of groups the last ones go, so whoever stands before one that stays does too."""
    since = datetime.fromisoformat(pause.since)
    staying = [pod for pod in active if pod.revision == revision and _stays(pod, since)]
    return max([len(staying), *(1 + pod.ordinal for pod in staying if pod.ordinal is not None)])


def _stays(pod: PodView, since: datetime) -> bool:
    # Created before the last end: it is of the same try, and may still come up.
    if pod.served or pod.created is None or pod.created < since:
        return True
    return pod.created == since and pod.container is not None
