"""What keeps a revision from serving until somebody acts: pod by pod, as the kubelet, scheduler and report say.

Pods that end as a whole before they ever serve, refused by their node or evicted in the middle of a warm-up, are told
of together: they are no replicas any more, and the ReplicaSet makes others in their stead; but they stay in the
cluster, and with them what their node said (docs/conditions.md, While pods start).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from gaudi_operator.core.deadlines import STALE_SECONDS
from gaudi_operator.core.mending import MENDED_BY_OTHERS, worst
from gaudi_operator.core.notation import read_moment
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.delays import (
    UNSCHEDULABLE_SECONDS,
    refused_since,
    unprepared_since,
    unscheduled_since,
    why_refused,
    why_unprepared,
    why_unscheduled,
)
from gaudi_operator.core.pods.gate import why_below
from gaudi_operator.core.pods.terminations import Termination, at_work
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.state import State
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.errors import Checks, Problem

_IMAGE = "Check spec.engine.image, spec.engine.imagePullPolicy and spec.pod.imagePullSecrets."
_CONTAINER = "Check that what spec.engine.env, spec.model.source and spec.pod name exists in this namespace."
_WAITING = {
    "ImagePullBackOff": _IMAGE,
    "ErrImagePull": _IMAGE,
    "ErrImageNeverPull": _IMAGE,
    "InvalidImageName": _IMAGE,
    "CreateContainerConfigError": _CONTAINER,
    "CreateContainerError": _CONTAINER,
    "RunContainerError": _CONTAINER,
}
_SURROUNDINGS = MENDED_BY_OTHERS | {"HubUnreachable", "DiskFull", "DeviceUnavailable", "PortUnavailable"}
"""Reasons that another revision would meet too, or that may pass: they take no revision back."""

FEWEST_ERRORS = 5
"""Answers that fail before we speak of a share: fewer may be chance."""

CRASHES = 2
"""Ends of a container that never served before we speak of a loop: one may be chance."""

_COMPILING = frozenset({Phase.COMPILING, Phase.CAPTURING, Phase.SAMPLER, Phase.DEFRAGMENTER})
_VOLUME_WORDS = ("persistentvolumeclaim", "volume node affinity", "unbound immediate")
STARTING = frozenset(Phase) - {Phase.SERVING, Phase.DRAINING, Phase.FAILED}


@dataclass(frozen=True)
class Room:
    """What is known of room for new pods: whether more is `to_come`, for then a pod without a node only waits.

    `unblock` says what lets an upgrade start that finds no room beside old pods; None when none is waiting for that.
    `soon` says what the operator itself does unless room comes first; None where it can do nothing.
    """

    to_come: bool
    unblock: str | None = None
    soon: str | None = None


def first_problem(
    pods: Iterable[PodView], replica_sets: Iterable[Manifest], state: State, room: Room
) -> Problem | None:
    """The worst problem of the current revision's `pods` and of its ReplicaSet; None when all goes its way."""
    refused = (found for each in replica_sets if (found := _refused_pods(each, state, room)))
    return worst(chain(pod_problems(pods, state, room), refused))


def pod_problems(pods: Iterable[PodView], state: State, room: Room) -> Iterator[Problem]:
    """What does not go its way, pod by pod."""
    return (found for pod in pods if (found := pod_problem(pod, state, room)))


def blames_the_revision(problem: Problem) -> bool:
    """Whether what the revision is made of is at fault, not what surrounds its pods."""
    return problem.reason not in _SURROUNDINGS


def pod_problem(pod: PodView, state: State, room: Room) -> Problem | None:
    """What does not go its way with one pod."""
    return _CHECKS(pod, state, room)


def _problem(reason: str, message: str, since: datetime | None, lasting: str | None = None) -> Problem:
    """A problem that began at a moment, which counts where others may mend it."""
    return Problem(reason, message, lasting, since=since if reason in MENDED_BY_OTHERS else None)


def _failed_start(pod: PodView, _: State, __: Room) -> Problem | None:
    failure = pod.report.failure if pod.report else None
    if failure is None:
        return None
    now, later = (f"Pod {pod.name} {could} start: {failure.message}" for could in ("cannot", "could not"))
    return _problem(failure.reason, now, pod.received, later)


def _container_waits(pod: PodView, _: State, __: Room) -> Problem | None:
    reason = pod.container.waiting_reason if pod.container else None
    if pod.container is None or reason not in _WAITING:
        return None
    why = f"{_sentence(pod.container.waiting_message or reason)} {_WAITING[reason]}"
    now, later = (f"Pod {pod.name} {could} start its container: {why}" for could in ("cannot", "could not"))
    # The reason has no time of its own, and takes turns with another (ErrImagePull, ImagePullBackOff) in one wait.
    return _problem(reason, now, pod.awaited_since, later)


def _crash_loop(pod: PodView, state: State, _: Room) -> Problem | None:
    """Our own count beside the kubelet's: it forgets between two ends, while the next container warms up again."""
    if pod.container is None:
        return None
    # The kubelet's waiting reason comes and goes between two tries: by it alone the condition would flap.
    again = pod.container.restarts >= CRASHES and not pod.served
    if pod.container.waiting_reason != "CrashLoopBackOff" and not again:
        return None
    last = state.terminations.get(pod.name)
    said = last.sentence if last else "Its end is unknown"
    reason, advice = _kind_of_crash(last) if last else ("CrashLoopBackOff", ())
    log = f"Read its log with `kubectl logs {pod.name} --previous`."
    return Problem(
        reason,
        " ".join((f"The container of pod {pod.name} ends again and again. {_sentence(said)}", *advice, log)),
        " ".join((f"The container of pod {pod.name} ended again and again. {_sentence(said)}", *advice)),
    )


def _kind_of_crash(last: Termination) -> tuple[str, Sequence[str]]:
    """Its reason, and what to change in the spec where that is known."""
    if last.facts.reason == "OOMKilled":
        return "HostOutOfMemory", ("Raise spec.pod.resources.memory: the node's memory ran out, not the card's.",)
    if last.phase not in _COMPILING:
        return "CrashLoopBackOff", ()
    # A crash of the sampler's or the defragmenter's kernels has no bucket that could be left out.
    if last.phase in (Phase.SAMPLER, Phase.DEFRAGMENTER):
        return "CompileCrashed", ("No bucket is at fault: try another image.",)
    bucket = "that bucket" if last.facts.bucket else "the bucket that its log names last"
    return "CompileCrashed", (f"Leave {bucket} out of spec.bucketing, or try another image.",)


def _unscheduled(pod: PodView, state: State, room: Room) -> Problem | None:
    said = None if room.to_come else why_unscheduled(pod, UNSCHEDULABLE_SECONDS, state.deadlines)
    if said is None:
        return None
    said, since = _sentence(said), unscheduled_since(pod)
    # The scheduler has no reason for it but its words.
    if any(word in said.lower() for word in _VOLUME_WORDS):
        return _problem(
            "VolumeNotBound",
            f"Pod {pod.name} waits for a volume: {said} Check that the PVC of spec.model exists, that its storage "
            "class can provide it, and that its volume is reachable from a node with cards.",
            since,
        )
    found = f"Pod {pod.name} finds no node: {said}"
    if room.unblock:
        return _problem("UpgradeBlocked", f"{found} {room.unblock}", since)
    # Others' time begins once we can do nothing ourselves.
    if room.soon:
        return _problem("Unschedulable", f"{found} {room.soon}", state.deadlines.now)
    return _problem("Unschedulable", f"{found} Free or add cards and memory, or lower spec.replicas.", since)


def _unprepared(pod: PodView, state: State, _: Room) -> Problem | None:
    sentence = why_unprepared(pod, state.deadlines)
    return None if sentence is None else _problem("PodNotPrepared", sentence, unprepared_since(pod))


def _workers(pod: PodView, state: State, room: Room) -> Problem | None:
    """What keeps another pod of the group from starting; how it fares then is in the leader's report."""
    found = (
        _container_waits(worker, state, room) or _unprepared(worker, state, room)
        for worker in pod.workers
        if worker.active
    )
    return next((each for each in found if each), None)


def _standstill(pod: PodView, state: State, _: Room) -> Problem | None:
    report, limit = pod.report, state.inference.spec.readiness.stall_timeout_seconds
    if report is None or pod.received is None or report.phase not in STARTING:
        return None
    if report.since_progress_seconds <= limit:
        # Only the runtime knows whether anything has moved since: our clock says when to ask, never that it stalls.
        age = (state.deadlines.now - pod.received).total_seconds()
        left = limit - report.since_progress_seconds - age
        state.deadlines.ask_again(left if left > 0 else STALE_SECONDS)
        return None
    found = f"in pod {pod.name} for more than {limit} s, in {at_work(report)}."
    return Problem(
        "WarmupStalled",
        f"Nothing has moved {found} Its container is restarted; if that repeats, read its log, or raise "
        "spec.readiness.stallTimeoutSeconds if a step takes longer.",
        f"Nothing moved {found} Raise spec.readiness.stallTimeoutSeconds if a step takes longer.",
    )


def _shortfall(pod: PodView, state: State, _: Room) -> Problem | None:
    if pod.report is None or pod.report.phase is not Phase.SERVING:
        return None
    below = why_below(pod.report, state.inference.spec.readiness)
    if below is None:
        return None
    reason, message = below
    why = (
        f"no traffic: {message} Give graphs more memory (spec.warmup.graphMemoryPercent), plan fewer buckets, lower "
        "the percentages in spec.readiness, or set its onShortfall to serveAndWarn."
    )
    return Problem(reason, f"Pod {pod.name} takes {why}", f"Pod {pod.name} took {why}")


def _is_observed(pod: PodView, state: State) -> bool:
    """Whether its revision has yet to prove itself to the canary's limits."""
    return state.inference.spec.rollout.canary.observe_seconds > 0 and pod.revision != state.before.revision.stable


def _recompiles(pod: PodView, state: State, _: Room) -> Problem | None:
    most, report = state.inference.spec.rollout.canary.max_recompiles, pod.report
    if report is None or not _is_observed(pod, state):
        return None
    if report.warmup_skipped or report.recompiles_since_ready <= most:
        return None
    # One shape is enough to act on; status.recompiles has the others.
    worst = max(report.cold_shapes, key=lambda cold: cold.count, default=None)
    shape = f", most often {worst.phase} {worst.shape}" if worst else ""
    return Problem(
        "TooManyRecompiles",
        f"Requests waited for {report.recompiles_since_ready} compiles in pod {pod.name}{shape}; "
        f"spec.rollout.canary.maxRecompiles is {most}. Change spec.bucketing so that buckets hold these shapes.",
    )


def _errors(pod: PodView, state: State, _: Room) -> Problem | None:
    most = state.inference.spec.rollout.canary.max_error_percent
    requests = pod.report.requests if pod.report and _is_observed(pod, state) else None
    if requests is None or requests.failed < FEWEST_ERRORS:
        return None
    if requests.failed * 100 <= requests.answered * most:
        return None
    found = (
        f"{requests.failed} of {requests.answered} answers of pod {pod.name} failed; "
        f"spec.rollout.canary.maxErrorPercent is {most}."
    )
    return Problem("TooManyErrors", f"{found} Read its log with `kubectl logs {pod.name}`.", found)


def _refused_pods(replica_set: Manifest, state: State, room: Room) -> Problem | None:
    found = None if room.to_come else why_refused(replica_set, UNSCHEDULABLE_SECONDS, state.deadlines)
    if found is None:
        return None
    since = refused_since(replica_set)
    said = f"ReplicaSet {replica_set['metadata']['name']} cannot make pods: {_sentence(found)}"
    # An admission rule would refuse the pod whatever else runs; a quota has room again once old pods are gone.
    if room.unblock and "quota" in found:
        return _problem("UpgradeBlocked", f"{said} {room.unblock}", since)
    if room.soon:
        return _problem("PodsRefused", f"{said} {room.soon}", state.deadlines.now)
    return _problem("PodsRefused", f"{said} Check the quota and the admission rules of this namespace.", since)


# In the order of a pod's life: what comes later in it is judged only when all before is well.
_CHECKS = Checks(
    _failed_start,
    _container_waits,
    _crash_loop,
    _unscheduled,
    _unprepared,
    _workers,
    _standstill,
    _shortfall,
    _recompiles,
    _errors,
)


def _sentence(text: str) -> str:
    text = " ".join(text.split())[:600]
    return text if text.endswith((".", "!", "?")) else f"{text}."


FEWEST = 2
"""Ended pods before we speak of them: one may be chance."""


def failed_in_a_row(pods: Iterable[PodView], revision: str) -> list[PodView]:
    """Failed pods of a revision that never served, oldest first, since the last of its pods became ready."""
    mine = [pod for pod in pods if pod.revision == revision]
    # A pod that serves proves that the revision works: what failed before it is over.
    ready = max((since for pod in mine if pod.ready and (since := pod.conditions["Ready"].since)), default=None)
    failed = ((pod.ended_at, pod) for pod in mine if pod.ended_at and not pod.served)
    return [pod for at, pod in sorted(failed, key=_when) if ready is None or at > ready]


def failed_pods_problem(pods: Iterable[PodView], revision: str) -> Problem | None:
    """What is said of them: how many, and the last one's own reason."""
    failed = failed_in_a_row(pods, revision)
    if len(failed) < FEWEST:
        return None
    last = failed[-1]
    return _problem(
        "PodsFail",
        f"{len(failed)} pods of revision {revision} ended before they served, the last one {last.name}: {last.ended} "
        f"Check its node and spec.pod.resources; `kubectl describe pod {last.name}` tells more.",
        failed[0].ended_at,
    )


def with_next_try(problem: Problem | None, revision: str, state: State) -> Problem | None:
    """The problem of a revision, and when the next pod is made while it backs off; that alone where no pod is left."""
    known, there = state.attempts.get(revision), len(state.active_of(revision))
    if known is None or there >= state.desired:
        return problem
    pause, error = known.pause(state.deadlines), known.last_error
    if pause is None:
        return problem
    tries = f"{pause.failures} tries in a row ended before a pod served"
    if problem:
        return replace(problem, message=f"{problem.message} {tries}: no new pod is made before {pause.until}.")
    if there or error is None:
        return None
    said = f"{tries}, the last one with pod {error.pod}: {error.message.rstrip('.')}."
    since = read_moment(pause.first or pause.since)
    return _problem("PodsFail", f"{said} The next pod is made at {pause.until}.", since)


def _when(found: tuple[datetime, PodView]) -> tuple[datetime, str]:
    at, pod = found
    return at, pod.name
