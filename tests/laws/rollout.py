"""Laws of a rollout: its minimum and maximum of pods, and which revisions never get pods."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.laws.history import History, Moment, Runtime
from tests.laws.promise import promise

HOT_SECONDS, MOST_TRIES = 30, 8
"""The maximum number of failed pods per desired pod within HOT_SECONDS.

The limit allows three tries, each with the replacement pods that the ReplicaSet creates at once. A loop without a
back-off creates one pod each second.
"""


def never_fewer_available_than_promised(history: History) -> Iterator[str]:
    """The operator removes no serving pod if fewer than the minimum would serve.

    Pods that faults ended since the snapshot of the decision still count as serving. The minimum is lower after a new
    pod has found no room for surgeTimeoutSeconds, but a second pod is never removed while one is missing. The removal
    of a pod that has just begun to serve does not count, because the snapshot may show this pod as not serving.
    """
    for number, before, now in history.steps():
        lost, left = before.endpoints - now.endpoints, len(now.endpoints)
        if not lost or left >= promise(now.spec).floor:
            continue
        since = history.seen_from(now.at)
        taken = {uid for at, uid in history.taken if since <= at <= now.at}
        pictures = history.pictures(number)
        floor = min(_floor(history, each) for each in pictures)
        known = frozenset.intersection(*(each.endpoints for each in (before, *pictures[:-1])))
        wanted = (lost & known) - taken
        if wanted and left + len(taken & _served(pictures)) < floor:
            names = ", ".join(before.pods[uid].name for uid in sorted(wanted))
            yield f"{now.at:.0f} s: {names} were removed, and {left} of {floor} guaranteed pods serve"


def _floor(history: History, moment: Moment) -> int:
    promised = promise(moment.spec)
    # Both minimums are possible, because times in the cluster are whole seconds, and the spec may just have changed the
    # timeout. Accept the lower minimum.
    if promised.without_room is None or not _found_no_room(history, moment):
        return promised.floor
    return min(promised.floor, promised.without_room)


def _found_no_room(history: History, last: Moment) -> bool:
    """Return True if the operator may have observed, since the last rollout, a pod without a node for the timeout.

    The timeout is a field of the spec. The operator may observe late that the pod got a node.
    """
    seconds = last.spec.get("rollout", {}).get("surgeTimeoutSeconds", 300) - history.lag - 2
    until = last.at
    for moment in reversed(history.moments[: bisect_right(history.moments, last.at, key=lambda each: each.at)]):
        desired_pods = [desired for desired in moment.replica_sets.values() if desired]
        if sum(pod.uid in moment.runtimes for pod in moment.counted) < sum(desired_pods):
            if until - moment.at >= seconds:
                return True
            continue
        until = min(last.at, history.reacted_by(moment.at))
        # If the only workload has all replicas, the rollout is complete, because the operator deletes the workloads of
        # other revisions at its end.
        if moment is not last and list(moment.replica_sets.values()) == [moment.spec.get("replicas", 1)]:
            return False
    return False


def never_more_pods_than_allowed(history: History) -> Iterator[str]:
    """At most replicas + maxSurge pods are desired.

    With in-place replacement, terminating pods count too, because they hold their cards. The operator watches the
    resource and its pods separately, so it may combine a newer spec with older pods. Pods may come back after a
    back-off, also those of the spec before a refused spec.
    """
    for number, before, now in history.steps():
        desired = sum(now.replica_sets.values())
        if desired <= sum(before.replica_sets.values()) + before.delayed:
            continue
        pictures, taken = history.pictures(number), {uid for _, uid in history.taken}
        if desired <= _most_before_refusal(history, number):
            continue
        promises, ending = [promise(each.spec) for each in pictures], min(_ending(each, taken) for each in pictures)
        if not any(desired + (ending if each.in_place else 0) <= each.ceiling for each in promises):
            most = max(each.ceiling for each in promises)
            yield f"{now.at:.0f} s: {desired} pods desired, {_ending(now, taken)} terminating, {most} allowed"


def _most_before_refusal(history: History, number: int) -> int:
    """Return how many pods were desired when the spec of the moment `number` was first refused; 0 if it is not."""
    most = 0
    for moment in reversed(history.moments[:number]):
        if not moment.is_refused:
            break
        most = sum(moment.replica_sets.values())
    return most


def no_failed_revision_is_tried_again(history: History) -> Iterator[str]:
    """A revision that is marked as failed gets no more pods while a good revision exists."""
    for number, before, now in history.steps():
        known = frozenset.intersection(*(each.failed for each in history.pictures(number)))
        stable = now.status.get("revision", {}).get("stable")
        for revision in known:
            more = now.replica_sets.get(revision, 0) > before.replica_sets.get(revision, 0)
            if more and stable not in (None, revision) and stable not in known and _kept(stable, now):
                yield f"{now.at:.0f} s: revision {revision} has failed and gets more pods"


def _kept(revision: str, moment: Moment) -> bool:
    """Return True if the revision's ControllerRevision exists. Without it, the revision cannot run again."""
    return any(each.kind == "ControllerRevision" and each.name.endswith(f"-{revision}") for each in moment.children)


def no_unapproved_revision_starts_while_paused(history: History) -> Iterator[str]:
    """While a rollout is paused, only the stable revision gets more pods, unless a back-off ends."""
    for number, before, now in history.steps():
        for revision, desired in now.replica_sets.items():
            if desired <= before.replica_sets.get(revision, 0):
                continue
            if all(_is_unapproved(revision, each) for each in history.pictures(number)):
                yield f"{now.at:.0f} s: revision {revision} is not stable and gets more pods while paused"


def _is_unapproved(revision: str, moment: Moment) -> bool:
    """Return True if the rollout is paused, and the stable revision could run in place of this revision."""
    stable = moment.status.get("revision", {}).get("stable")
    in_back_off = {row["name"] for row in moment.status.get("revisions", ()) if "backOff" in row}
    could_run = stable not in (None, revision) and stable not in moment.failed and _kept(stable, moment)
    return could_run and moment.spec.get("rollout", {}).get("paused", False) and revision not in in_back_off


def canary_is_alone(history: History) -> Iterator[str]:
    """While other good revisions serve, a new revision gets a second pod only after its first pod serves."""
    for number, before, now in history.steps():
        pictures = history.pictures(number)
        for revision, desired in now.replica_sets.items():
            if desired <= max(1, before.replica_sets.get(revision, 0)):
                continue
            if all(_on_trial(revision, each) for each in pictures):
                yield f"{now.at:.0f} s: {desired} pods of {revision} are desired before its canary serves"


def no_pod_keeps_a_deletion_cost_without_need(history: History) -> Iterator[str]:
    """No pod has a lowered deletion cost for long while its revision needs all pods."""
    for (name, _), since, until in history.spells(_marked_without_need):
        if until > history.reacted_by(since):
            yield f"{until:.0f} s: {name} has the lowest cost since {since:.0f} s, and its revision needs all pods"


def _marked_without_need(moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield (name, UID) of each pod that has a lowered deletion cost although all pods of its revision are desired."""
    there = Counter(pod.revision for pod in moment.counted)
    for pod in moment.counted:
        if pod.removed_first and moment.replica_sets.get(pod.revision, 0) >= there[pod.revision]:
            yield pod.name, pod.uid


def no_pods_are_created_in_a_hot_loop(history: History) -> Iterator[str]:
    """Pods that fail before they serve are replaced after growing delays, if the operator can observe and write."""
    for revision, ends in _failed_tries(history).items():
        for number, since in enumerate(ends):
            until = since + HOT_SECONDS
            if any(start - history.lag < until and since < stop + history.lag for start, stop in _away(history)):
                continue
            found = bisect_right(ends, until) - number
            desired = max(each.replica_sets.get(revision, 0) for each in _between(history, since - history.lag, until))
            if found > MOST_TRIES * desired:
                yield f"{until:.0f} s: {found} pods of {revision} failed within {HOT_SECONDS} s, {desired} are desired"
                break


def _failed_tries(history: History) -> dict[str, list[float]]:
    """Return the failure times of pods that never served, by revision. Pods that a fault ended are omitted."""
    known, found = {uid for _, uid in history.taken}, defaultdict[str, list[float]](list)
    for moment in history.moments:
        for uid, pod in moment.pods.items():
            if pod.failed and uid not in known:
                known.add(uid)
                if pod.judged is None:
                    found[pod.revision].append(moment.at)
    return found


def _away(history: History) -> Sequence[tuple[float, float]]:
    return (*history.blind, *history.waits)


def _between(history: History, since: float, until: float) -> Sequence[Moment]:
    """Return the moments of an interval, including the moment in which the interval began."""
    first = bisect_right(history.moments, since, key=lambda moment: moment.at) - 1
    return history.moments[max(0, first) : bisect_right(history.moments, until, key=lambda moment: moment.at)]


def _on_trial(revision: str, moment: Moment) -> bool:
    proven = moment.status.get("revision", {}).get("stable") == revision
    # Consider only pods whose ReplicaSet still exists. The garbage collector deletes the other pods, so the law does
    # not protect them.
    # The canary of a failed revision may still serve, but the last good revision must not wait for it.
    serving = {moment.pods[uid].revision for uid in moment.endpoints} & set(moment.replica_sets) - moment.failed
    held = moment.spec.get("rollout", {}).get("paused", False)
    return not proven and not held and bool(serving) and revision not in serving


def _served(pictures: Sequence[Moment]) -> set[str]:
    return {uid for each in pictures for uid in each.endpoints}


def _ending(moment: Moment, taken: set[str]) -> int:
    """Return the number of terminating pods that an in-place rollout waits for, except pods that a fault ended."""
    holding = (uid for uid, pod in moment.pods.items() if not pod.counts and _holds_a_card(moment.runtimes.get(uid)))
    return sum(uid not in taken for uid in holding)


def _holds_a_card(runtime: Runtime | None) -> bool:
    return runtime is not None and runtime.reachable
