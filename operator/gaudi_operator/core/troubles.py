"""What keeps a revision from serving until a person acts: pod by pod, as the kubelet, scheduler and report say."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.gate import why_below
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods import PodView
from gaudi_operator.core.preparation import why_unprepared
from gaudi_runtime.contract.report import Phase

UNSCHEDULABLE_SECONDS = 30
"""Shorter spells are usual: a pod that ends still holds its cards until it has drained."""

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
_STARTING = frozenset(Phase) - {Phase.SERVING, Phase.DRAINING, Phase.FAILED}


@dataclass(frozen=True)
class Trouble:
    """A stable reason and a sentence that says what to do."""

    reason: str
    message: str


@dataclass(frozen=True)
class Circumstances:
    """What a pod's troubles are judged by, beside the pod."""

    readiness: Readiness
    room_to_come: bool
    now: datetime


def first_trouble(
    pods: Iterable[PodView], replica_sets: Iterable[Manifest], circumstances: Circumstances
) -> Trouble | None:
    """The first trouble of the current revision's `pods`, then of its ReplicaSet; None when all goes its way."""
    for pod in pods:
        if found := pod_trouble(pod, circumstances):
            return found
    return next((found for each in replica_sets if (found := _refused_pods(each))), None)


def pod_trouble(pod: PodView, circumstances: Circumstances) -> Trouble | None:
    """What only a person can mend about one pod."""
    checks: tuple[Callable[[PodView, Circumstances], Trouble | None], ...] = (
        _failed_start,
        _container_waits,
        _crash_loop,
        _unschedulable,
        _unprepared,
        _standstill,
        _shortfall,
    )
    return next((found for check in checks if (found := check(pod, circumstances))), None)


def unscheduled_since(pod: PodView) -> datetime | None:
    """When the scheduler first found no node; None when it has found one or has not looked."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.true or scheduled.reason != "Unschedulable":
        return None
    return scheduled.since


def _failed_start(pod: PodView, _: Circumstances) -> Trouble | None:
    failure = pod.report.failure if pod.report else None
    return None if failure is None else Trouble(failure.reason, f"Pod {pod.name} cannot start: {failure.message}")


def _container_waits(pod: PodView, _: Circumstances) -> Trouble | None:
    reason = pod.container.waiting_reason if pod.container else None
    if pod.container is None or reason not in _WAITING:
        return None
    said = pod.container.waiting_message or reason
    return Trouble(reason, f"Pod {pod.name} cannot start its container: {_sentence(said)} {_WAITING[reason]}")


def _crash_loop(pod: PodView, _: Circumstances) -> Trouble | None:
    if pod.container is None or pod.container.waiting_reason != "CrashLoopBackOff":
        return None
    said = pod.container.last_exit or "its end is unknown"
    return Trouble(
        "CrashLoopBackOff",
        f"The container of pod {pod.name} ends again and again ({said}). Read its log with "
        f"`kubectl logs {pod.name} --previous`; OOMKilled asks for more spec.pod.resources.memory.",
    )


def _unschedulable(pod: PodView, circumstances: Circumstances) -> Trouble | None:
    since = unscheduled_since(pod)
    if since is None or circumstances.room_to_come:
        return None
    if circumstances.now - since < timedelta(seconds=UNSCHEDULABLE_SECONDS):
        return None
    said = _sentence(pod.conditions["PodScheduled"].message or "no node fits")
    return Trouble(
        "Unschedulable",
        f"Pod {pod.name} finds no node: {said} Free or add cards and memory, lower spec.replicas, or set "
        "spec.rollout.mode to inPlace so that new pods take the place of old ones.",
    )


def _unprepared(pod: PodView, circumstances: Circumstances) -> Trouble | None:
    sentence = why_unprepared(pod, circumstances.now)
    return None if sentence is None else Trouble("PodNotPrepared", sentence)


def _standstill(pod: PodView, circumstances: Circumstances) -> Trouble | None:
    report, limit = pod.report, circumstances.readiness.stall_timeout_seconds
    if report is None or report.phase not in _STARTING or report.since_progress_seconds <= limit:
        return None
    return Trouble(
        "WarmupStalled",
        f"Nothing has moved in pod {pod.name} for more than {limit} s, in phase {report.phase}. Its container is "
        "restarted; if that repeats, read its log, or raise spec.readiness.stallTimeoutSeconds if a step takes longer.",
    )


def _shortfall(pod: PodView, circumstances: Circumstances) -> Trouble | None:
    if pod.report is None or pod.report.phase is not Phase.SERVING:
        return None
    below = why_below(pod.report, circumstances.readiness)
    if below is None:
        return None
    reason, message = below
    return Trouble(
        reason,
        f"Pod {pod.name} takes no traffic: {message} Give graphs more memory (spec.warmup.graphMemoryShare), plan "
        "fewer buckets, lower the percentages in spec.readiness, or set its onShortfall to serveAndWarn.",
    )


def _refused_pods(replica_set: Manifest) -> Trouble | None:
    for condition in (replica_set.get("status") or {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            said = _sentence(condition.get("message") or condition.get("reason") or "no reason was given")
            return Trouble(
                "PodsRefused",
                f"ReplicaSet {replica_set['metadata']['name']} cannot make pods: {said} Check the quota and the "
                "admission rules of this namespace.",
            )
    return None


def _sentence(text: str) -> str:
    text = " ".join(text.split())[:600]
    return text if text.endswith((".", "!", "?")) else f"{text}."
