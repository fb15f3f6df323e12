"""When a pass is due although nothing changes: judgements that only the clock can change."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from gaudi_operator.core.names import GATE
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.delays import (
    UNPREPARED_SECONDS,
    UNSCHEDULABLE_SECONDS,
    in_work,
    refusal,
    unprepared_since,
    unscheduled_since,
)
from gaudi_operator.core.pods.gate import SETTLE_SECONDS
from gaudi_operator.core.pods.problems import STARTING
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.replicas import OVERDUE
from gaudi_operator.core.rollout.target import observed_seconds
from gaudi_runtime.contract.report import WarmupReport

STALE_SECONDS = 10.0
"""Between two looks at a warm-up that may stand still: what a report says of it ages without a change of the report."""


def look_again_seconds(
    pods: Iterable[PodView],
    wait: float | None,
    now: datetime,
    *,
    observe_seconds: float = 0.0,
    stall_seconds: float | None = None,
    workloads: Iterable[Manifest] = (),
) -> float | None:
    """Seconds until the first such judgement; `wait` is that of the status. None when none is open.

    A canary is judged after `observe_seconds`, a warm-up after `stall_seconds` without progress. `workloads` may be
    refused their pods.
    """
    waits = [] if wait is None else [wait]
    refused = (found.since for each in workloads if (found := refusal(each)))
    waits += [UNSCHEDULABLE_SECONDS - (now - since).total_seconds() for since in refused if since]
    for pod in pods:
        if pod.gone_by is not None:
            waits.append((pod.gone_by + OVERDUE - now).total_seconds())
        if not pod.active:
            continue
        if since := unscheduled_since(pod):
            waits.append(UNSCHEDULABLE_SECONDS - (now - since).total_seconds())
        if since := unprepared_since(pod):
            waits.append(UNPREPARED_SECONDS - (now - since).total_seconds())
        if pod.gate_open:
            waits.append(observe_seconds - observed_seconds(pod, now))
        if stall_seconds is not None and pod.report and pod.received and pod.report.phase in STARTING:
            waits.append(_stall_due(pod.report, now - pod.received, stall_seconds))
        if at := in_work(pod, now):
            waits.append(at.limit - at.seconds)
        opened = pod.conditions[GATE].since if pod.gate_open and not pod.ready else None
        if opened:
            waits.append(SETTLE_SECONDS - (now - opened).total_seconds())
    open_waits = [each for each in waits if each > 0]
    return min(open_waits) + 0.1 if open_waits else None


def asks_first(pods: Iterable[PodView], wait: float | None, now: datetime, stall_seconds: float) -> bool:
    """Whether pods are asked what they do before the pass after `wait` seconds.

    A runtime holds its answer until something moves, up to half a minute: of a standstill it tells only when asked.
    """
    dues = (
        _stall_due(pod.report, now - pod.received, stall_seconds)
        for pod in pods
        if pod.active and pod.report and pod.received and pod.report.phase in STARTING
    )
    return wait is not None and any(0 < due <= wait for due in dues)


def _stall_due(report: WarmupReport, age: timedelta, stall_seconds: float) -> float:
    if report.since_progress_seconds > stall_seconds:
        return 0.0
    left = stall_seconds - report.since_progress_seconds - age.total_seconds()
    return left if left > 0 else STALE_SECONDS
