"""The progress of pods: graphs and warm-up in percent, and the steps before a pod receives traffic.

See docs/internals/warmup.md, Percentages.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.start_delays import is_delayed_by_scheduling_gates
from gaudi_runtime.contract.report import (
    Phase,
    PhaseProgressReport,
    VisionProgressReport,
    WarmupReport,
    percent,
)

WARMED_UP_PHASES = frozenset({Phase.SERVING, Phase.DRAINING})


class PodPendingStep(StrEnum):
    """The step that a pod without traffic waits for, as condition messages report it."""

    GATED = "held by scheduling gates"
    UNSCHEDULED = "without a node"
    STARTING = "pulling images or starting containers"
    WARMING = "warming up"
    FAILED = "failed to start or serve"
    READINESS = "warmed up but not ready"


def _pending_step(pod: PodView) -> PodPendingStep:
    """Return the step that an active but unready pod waits for."""
    if is_delayed_by_scheduling_gates(pod):
        return PodPendingStep.GATED
    if not pod.is_scheduled:
        return PodPendingStep.UNSCHEDULED
    if pod.container is None or not pod.container.running:
        return PodPendingStep.STARTING
    if pod.report is not None and pod.report.failure is not None:
        return PodPendingStep.FAILED
    # The gate may stay closed after the warm-up, for example if too few graphs are captured.
    warmup_ended = pod.is_gate_open or (pod.report is not None and pod.report.phase in WARMED_UP_PHASES)
    return PodPendingStep.READINESS if warmup_ended else PodPendingStep.WARMING


def count_pod_progress_steps(pods: Iterable[PodView]) -> dict[PodPendingStep, int]:
    """Return how many pods without traffic wait at each step. The result has the order of the steps."""
    counts = Counter(_pending_step(pod) for pod in pods if not pod.is_ready)
    return {kind: counts[kind] for kind in PodPendingStep if counts[kind]}


def captured_progress_percent(progress: PhaseProgressReport) -> int | None:
    """Return the captured or executed buckets of a phase in percent, rounded down, or None without planned buckets."""
    return percent(progress.prepared, progress.planned)


def warmup_progress_percent(report: WarmupReport) -> int:
    """Return the progress of a pod's warm-up in percent of compiled and captured buckets, rounded down.

    The result is 100 only after the warm-up has ended.
    """
    if report.phase in WARMED_UP_PHASES:
        return 100
    phases, vision = (report.prompt, report.decode), report.vision or VisionProgressReport()
    total = vision.planned + sum(progress.planned * (2 if progress.has_second_step else 1) for progress in phases)
    done = vision.warmed + sum(progress.warmed + progress.captured * progress.has_second_step for progress in phases)
    # Profiling and loading may follow the warm-up, so report at most 99 until the pod serves.
    return min(99, done * 100 // total) if total else 0
