"""Laws of the status: it tells the truth about pods, in the form that tools expect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.laws.history import History, Moment
from tests.support.conformance import violations

NO_ROOM = ("Unschedulable", "UpgradeBlocked", "PodsRefused")
"""Reasons of pods that find no place."""


def status_tells_the_truth_about_pods(history: History) -> Iterator[str]:
    """Every row was so in a picture that the operator could have; at rest, rows and pods are the same."""
    for number, before, now in history.steps():
        if now.status == before.status:
            continue
        pictures = history.pictures(number)
        for row in now.status.get("pods", ()):
            if not any(_row_holds(row, each) for each in pictures) and not _left_meanwhile(row, pictures):
                yield (
                    f"{now.at:.0f} s: status.pods says {_told(row)} of {row['name']}, which never was so lately, but "
                    f"{_was(row, pictures)}"
                )
        yield from (f"{now.at:.0f} s: {each}" for each in _sums(now.status))
    if history.end - history.last.at > history.lag:
        yield from _at_rest(history.last)


def status_has_its_form(history: History) -> Iterator[str]:
    """The checks of tests/support/conformance.py, for every status."""
    for _, before, now in history.steps():
        if now.status and now.status != before.status:
            yield from (f"{now.at:.0f} s: {each}" for each in violations(dict(now.resource)))


def others_have_their_time(history: History) -> Iterator[str]:
    """Stalled for want of room only where somebody has found none for as long as progressDeadlineSeconds."""
    for _, before, now in history.steps():
        told, deadline = now.condition("Stalled"), now.spec.get("rollout", {}).get("progressDeadlineSeconds", 600)
        turned = told.get("status") == "True" and before.condition("Stalled").get("status") != "True"
        if not turned or told["reason"] not in NO_ROOM:
            continue
        # Times in the cluster are whole seconds.
        for each in history.between(now.at - deadline + 1, history.seen_from(now.at)):
            # One more of the old, for a moment after a change of replicas, is no room for the new one that waits.
            running = [pod.uid in each.runtimes for pod in each.counted]
            if all(running) and len(running) >= sum(each.replica_sets.values()):
                yield f"{now.at:.0f} s: {told['reason']} is Stalled, although all pods ran at {each.at:.0f} s"


def _row_holds(row: Mapping[str, Any], moment: Moment) -> bool:
    found = (pod for pod in moment.pods.values() if pod.name == row["name"] and pod.counts)
    pod = next(found, None)
    return pod is not None and _told(row) == (pod.revision, pod.gate, pod.serves)


def _left_meanwhile(row: Mapping[str, Any], pictures: Sequence[Moment]) -> bool:
    """A row shows the gate as it was decided; the pod may leave before that is written. Never as taking traffic."""
    lives = [{pod.name for pod in each.pods.values() if pod.counts} for each in pictures]
    return not row["ready"] and row["name"] not in lives[-1] and any(row["name"] in names for names in lives)


def _was(row: Mapping[str, Any], pictures: Iterable[Moment]) -> list[str]:
    """What the pod of a row was in each picture, changes only."""
    pods = ((each.at, pod) for each in pictures for pod in each.pods.values() if pod.name == row["name"])
    told = [(f"{pod.revision} gate={pod.gate} serves={pod.serves} counts={pod.counts}", at) for at, pod in pods]
    return [
        f"{at:.2f} s: {said}" for (said, at), before in zip(told, [("", 0.0), *told], strict=False) if said != before[0]
    ]


def _told(row: Mapping[str, Any]) -> tuple[str, bool, bool]:
    return row["revision"], row["gate"], row["ready"]


def _sums(status: Mapping[str, Any]) -> Iterator[str]:
    rows = status.get("pods", ())
    if status.get("replicas", 0) != len(rows):
        yield f"status.replicas is {status.get('replicas')}, and {len(rows)} pods are listed"
    if status.get("readyReplicas", 0) != sum(row["ready"] for row in rows):
        yield f"status.readyReplicas is {status.get('readyReplicas')}, and another number of rows is ready"


def _at_rest(moment: Moment) -> Iterator[str]:
    told = {row["name"]: _told(row) for row in moment.status.get("pods", ())}
    true = {pod.name: (pod.revision, pod.gate, pod.serves) for pod in moment.counted}
    if told != true:
        yield f"{moment.at:.0f} s: at rest the status says {told}, and pods are {true}"
