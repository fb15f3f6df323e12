"""What takes longer than usual on a pod's way to its captured graphs, in the order in which a pod meets it.

A pod that has no node yet: what the scheduler, a quota or an admission rule says about it. A pod that has a node and
gets no container there, because its volumes or its network do not come. And a bucket that takes much longer than
others like it, named long before it counts as a standstill (docs/internals/warmup.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.notation import read_moment
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.view import PodView
from gaudi_runtime.contract.report import BucketPhase, Phase, Shape

UNSCHEDULABLE_SECONDS = 30
"""Shorter spells are usual, and not reported: a pod that ends still holds its cards until it has drained."""


@dataclass(frozen=True)
class Room:
    """What is known of room for new pods: whether more is `to_come`, for then a pod without a node only waits.

    `unblock` says what lets an upgrade start that finds no room beside old pods; None when none is waiting for that.
    `soon` says what the operator itself does unless room comes first; None where it can do nothing.
    """

    to_come: bool
    unblock: str | None = None
    soon: str | None = None


def unscheduled_since(pod: PodView) -> datetime | None:
    """When the scheduler first found no node; None when it has found one or has not looked."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.true or scheduled.reason != "Unschedulable":
        return None
    return scheduled.since


def why_unscheduled(pod: PodView, seconds: float, deadlines: Deadlines) -> str | None:
    """What the scheduler says of a pod that has had no node for so long; None while it may yet find one."""
    since = unscheduled_since(pod)
    if since is None or not deadlines.reached(since, seconds):
        return None
    return pod.conditions["PodScheduled"].message or "no node fits"


def refused_since(workload: Manifest) -> datetime | None:
    """Since when something, such as a quota, has kept a ReplicaSet from making pods; None where nobody says."""
    return read_moment(_refusal(workload).get("lastTransitionTime"))


def why_refused(workload: Manifest, seconds: float, deadlines: Deadlines) -> str | None:
    """What has kept a ReplicaSet from making pods for so long; None when nothing has."""
    found, since = _refusal(workload), refused_since(workload)
    if not found or (since is not None and not deadlines.reached(since, seconds)):
        return None
    return str(found.get("message") or found.get("reason") or "no reason was given")


def _refusal(workload: Manifest) -> Mapping[str, Any]:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    refusals = (each for each in conditions if (each["type"], each["status"]) == ("ReplicaFailure", "True"))
    return next(refusals, {})


UNPREPARED_SECONDS = 180
"""Attaching a disk takes a minute or two where all is well."""


def unprepared_since(pod: PodView) -> datetime | None:
    """Since when a pod with a node has had no sandbox there; None where it has one.

    Also None where it has no node, or its kubelet does not tell (the condition came with 1.29).
    """
    prepared = pod.conditions.get("PodReadyToStartContainers")
    return None if prepared is None or prepared.true else prepared.since


def why_unprepared(pod: PodView, deadlines: Deadlines) -> str | None:
    """The sentence about a pod that has waited for long; None while that is usual."""
    since = unprepared_since(pod)
    if since is None or not deadlines.reached(since, UNPREPARED_SECONDS):
        return None
    return (
        f"Pod {pod.name} has a node and waits for its volumes or its network for more than {UNPREPARED_SECONDS} s. The "
        f"events of `kubectl describe pod {pod.name}` name what is missing. A ReadWriteOnce PVC serves the pods of "
        "one node only: use ReadWriteMany, or spec.pod.nodeSelector."
    )


FACTOR = 4
"""How many times its forecast a bucket may take before it is named."""

LEAST_SECONDS = 30.0
"""Shorter steps are never named: their times vary by chance."""


@dataclass(frozen=True)
class BucketInWork:
    """What a pod compiles or captures now, since when, and the seconds that were forecast for it."""

    phase: BucketPhase
    bucket: Shape
    since: datetime
    forecast: float

    @property
    def limit(self) -> float:
        """Seconds after which it is slow."""
        return max(LEAST_SECONDS, FACTOR * self.forecast)


def slow_bucket(pod: PodView, deadlines: Deadlines) -> str | None:
    """The sentence that names it; None while all goes at its pace, or no forecast is known."""
    at = _in_work(pod)
    if at is None or pod.report is None or not deadlines.reached(at.since, at.limit):
        return None
    return (
        f"{at.phase.capitalize()} bucket {at.bucket} takes more than {at.limit:.0f} s in phase {pod.report.phase}; "
        f"buckets like it lead to expect {at.forecast:.1f} s (an estimate)."
    )


def _in_work(pod: PodView) -> BucketInWork | None:
    """The bucket in work, if its time was forecast. Nothing moves within one, so its time is that without progress."""
    report = pod.report
    if report is None or pod.received is None or report.phase not in (Phase.COMPILING, Phase.CAPTURING):
        return None
    since = pod.received - timedelta(seconds=report.since_progress_seconds)
    for phase, progress in ((BucketPhase.PROMPT, report.prompt), (BucketPhase.DECODE, report.decode)):
        if progress.current is not None and progress.forecast_seconds is not None:
            return BucketInWork(phase, progress.current, since, progress.forecast_seconds)
    return None
