"""Laws of the status: its rows match the pods, and its format follows the conventions that tools expect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.laws.history import History, Moment
from tests.laws.sentences import disagreements
from tests.support.conformance import violations

NO_ROOM = ("Unschedulable", "UpgradeBlocked", "PodsRefused")
"""Reasons of pods that cannot be scheduled."""


def status_tells_the_truth_about_pods(history: History) -> Iterator[str]:
    """Every row matches its pod in a snapshot that the operator may have used. At rest, rows and pods are equal."""
    for number, before, now in history.steps():
        if now.status == before.status:
            continue
        pictures = history.pictures(number)
        for row in now.status.get("pods", ()):
            if not any(_row_holds(row, each) for each in pictures) and not _left_meanwhile(row, pictures):
                yield (
                    f"{now.at:.0f} s: status.pods reports {_row_state(row)} for {row['name']}, but recent states are "
                    f"{_pod_states(row, pictures)}"
                )
        yield from (f"{now.at:.0f} s: {each}" for each in _sums(now.status))
    if history.end - history.last.at > history.lag:
        yield from _at_rest(history.last)


def status_has_its_form(history: History) -> Iterator[str]:
    """Every status passes the checks of tests/support/conformance.py."""
    for _, before, now in history.steps():
        if now.status and now.status != before.status:
            yield from (f"{now.at:.0f} s: {each}" for each in violations(dict(now.resource)))


def no_message_contradicts_the_status(history: History) -> Iterator[str]:
    """No status violates the checks of sentences.py."""
    for _, before, now in history.steps():
        if now.status != before.status:
            yield from (f"{now.at:.0f} s: {each}" for each in disagreements(now.resource))


def queued_pods_are_not_stalled(history: History) -> Iterator[str]:
    """Stalled never has the reason SchedulingGated, because pods that wait for quota are not stalled."""
    for _, before, now in history.steps():
        stalled = now.condition("Stalled")
        if now.status != before.status and stalled.get("reason") == "SchedulingGated":
            yield f"{now.at:.0f} s: Stalled has the reason SchedulingGated: {stalled.get('message')}"


def stalled_for_room_only_after_the_deadline(history: History) -> Iterator[str]:
    """Stalled has a reason about room only after a pod has found no room for obstacleDeadlineSeconds."""
    # Controllers create pods at most once per second. Between two writes of the operator, the workloads may want fewer
    # pods for less than a second, which no controller observes: the missing pod has still found no room.
    complete = [(start, stop) for _, start, stop in history.spells(_all_pods_run) if stop - start >= 1]
    for _, before, now in history.steps():
        stalled, deadline = now.condition("Stalled"), now.spec.get("rollout", {}).get("obstacleDeadlineSeconds", 600)
        turned = stalled.get("status") == "True" and before.condition("Stalled").get("status") != "True"
        if not turned or stalled["reason"] not in NO_ROOM:
            continue
        # Add one second, because times in the cluster are whole seconds.
        first, last = now.at - deadline + 1, history.seen_from(now.at)
        for start, stop in complete:
            if first < min(stop, last) and start <= last:
                yield f"{now.at:.0f} s: {stalled['reason']} is Stalled, although all pods ran until {stop:.0f} s"


def _all_pods_run(moment: Moment) -> Iterator[bool]:
    """Yield True if all pods that the workloads want run.

    After a change of replicas, an extra old pod may run for a short time while a new pod waits for room. Therefore the
    number of running pods is compared with the desired number.
    """
    running = [pod.uid in moment.runtimes for pod in moment.counted]
    if all(running) and len(running) >= sum(moment.replica_sets.values()):
        yield True


def _row_holds(row: Mapping[str, Any], moment: Moment) -> bool:
    found = (pod for pod in moment.pods.values() if pod.name == row["name"] and pod.counts)
    pod = next(found, None)
    return pod is not None and _row_state(row) == (pod.revision, pod.gate, pod.serves)


def _left_meanwhile(row: Mapping[str, Any], pictures: Sequence[Moment]) -> bool:
    """Return True if the pod of a row that is not ready was removed after the snapshot of the decision."""
    lives = [{pod.name for pod in each.pods.values() if pod.counts} for each in pictures]
    return not row["ready"] and row["name"] not in lives[-1] and any(row["name"] in names for names in lives)


def _pod_states(row: Mapping[str, Any], pictures: Iterable[Moment]) -> list[str]:
    """Return the states of the row's pod in the snapshots, without duplicates."""
    pods = ((each.at, pod) for each in pictures for pod in each.pods.values() if pod.name == row["name"])
    states = [(f"{pod.revision} gate={pod.gate} serves={pod.serves} counts={pod.counts}", at) for at, pod in pods]
    return [
        f"{at:.2f} s: {state}"
        for (state, at), before in zip(states, [("", 0.0), *states], strict=False)
        if state != before[0]
    ]


def _row_state(row: Mapping[str, Any]) -> tuple[str, bool, bool]:
    return row["revision"], row["gate"], row["ready"]


def _sums(status: Mapping[str, Any]) -> Iterator[str]:
    rows = status.get("pods", ())
    if status.get("replicas", 0) != len(rows):
        yield f"status.replicas is {status.get('replicas')}, and {len(rows)} pods are listed"
    if status.get("readyReplicas", 0) != sum(row["ready"] for row in rows):
        yield f"status.readyReplicas is {status.get('readyReplicas')}, which is not the number of ready rows"


def _at_rest(moment: Moment) -> Iterator[str]:
    reported = {row["name"]: _row_state(row) for row in moment.status.get("pods", ())}
    actual = {pod.name: (pod.revision, pod.gate, pod.serves) for pod in moment.counted}
    if reported != actual:
        yield f"{moment.at:.0f} s: at rest the status reports {reported}, but the pods are {actual}"
