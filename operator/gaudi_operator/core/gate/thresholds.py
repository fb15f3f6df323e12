"""The completeness of a warm-up, and the thresholds of spec.readiness, compared with a report.

A warm-up is complete if every planned bucket is warm and capture has ended (docs/internals/architecture.md, The gate).
"""

from typing import NamedTuple

from gaudi_operator.api.v1alpha1.warmup import Readiness, Shortfall
from gaudi_runtime.contract.preparation import PreparationSkipCause
from gaudi_runtime.contract.report import (
    BucketPhase,
    CapturableGraphsReport,
    Phase,
    PhaseProgressReport,
    VisionProgressReport,
    WarmupReport,
    percent,
    reaches_percent,
)
from gaudi_runtime.units import format_bytes

WARMUP_INCOMPLETE = "WarmupIncomplete"
"""The reason of a gate that is closed because buckets are cold, or because the capture of graphs has failed."""

CAPTURED_BELOW_THRESHOLD = "CapturedBelowThreshold"
"""The reason of a gate that is closed because a pod has captured too few graphs."""

_MAX_REASON = 300
_VISION = "vision"


class _Shortfall(NamedTuple):
    """The shortfall of one phase, which keeps the gate closed: an incomplete warm-up, or captures below a threshold."""

    phase: str
    is_incomplete: bool
    clause: str


def shortfalls(report: WarmupReport, readiness: Readiness) -> tuple[str, ...]:
    """Return a clause for each phase that is incomplete or below its threshold.

    The check compares counts, not rounded percentages.
    """
    return tuple(shortfall.clause for shortfall in _phase_shortfalls(report, readiness))


def describe_threshold_shortfalls(report: WarmupReport, readiness: Readiness) -> tuple[str, ...]:
    """Return a sentence for each phase with a shortfall. It names the first skipped bucket and the reason.

    Buckets that were skipped by a failure come first.
    """
    by_cause = sorted(report.skipped, key=lambda item: item.cause is not PreparationSkipCause.FAILURE)
    first_skipped = {item.phase.value: (str(item.bucket), item.reason) for item in reversed(by_cause)}
    if report.vision and report.vision.skipped:
        first = report.vision.skipped[0]
        first_skipped[_VISION] = f"({first.bucket})", first.reason
    return tuple(
        f"{phase.capitalize()} bucket {first_skipped[phase][0]} was the first bucket that was left out: "
        f"{first_skipped[phase][1][:_MAX_REASON].rstrip('.')}."
        for phase, _, _ in _phase_shortfalls(report, readiness)
        if phase in first_skipped
    )


def _phase_shortfalls(report: WarmupReport, readiness: Readiness) -> tuple[_Shortfall, ...]:
    if report.warmup_skipped:
        return ()
    found = (
        _find_shortfall(BucketPhase.PROMPT, report.prompt, readiness.min_captured_prompt_percent),
        _find_shortfall(BucketPhase.DECODE, report.decode, readiness.min_captured_decode_percent),
        _find_vision_shortfall(report.vision, readiness.min_warmed_vision_percent),
    )
    return tuple(shortfall for shortfall in found if shortfall)


def _find_vision_shortfall(vision: VisionProgressReport | None, min_percent: int) -> _Shortfall | None:
    if vision is None or reaches_percent(vision.warmed, vision.planned, min_percent) is not False:
        return None
    floored = percent(vision.warmed, vision.planned)
    clause = f"{vision.warmed} of {vision.planned} vision buckets ({floored} %) are warm (minimum {min_percent} %)"
    return _Shortfall(_VISION, False, clause)


def _find_shortfall(phase: BucketPhase, progress: PhaseProgressReport, min_percent: int) -> _Shortfall | None:
    planned, (noun, outcome) = progress.planned, progress.preparation.words
    if clause := _why_incomplete(phase, progress):
        return _Shortfall(phase.value, True, clause)
    if reaches_percent(progress.prepared, planned, min_percent) is not False:
        return None
    floored = percent(progress.prepared, planned)
    clause = f"{progress.prepared} of {planned} {phase} {noun} ({floored} %) are {outcome} (minimum {min_percent} %)"
    return _Shortfall(phase.value, False, clause)


def _why_incomplete(phase: BucketPhase, progress: PhaseProgressReport) -> str | None:
    """Return why the warm-up of a phase is incomplete, or None if buckets are warm and capture has ended.

    Capture has ended if each graph is captured, or was left out by a limit in the spec or for memory.
    """
    planned, (noun, outcome) = progress.planned, progress.preparation.words
    if progress.warmed < planned:
        return f"{progress.warmed} of {planned} {phase} buckets are warm"
    if progress.failed:
        return f"{progress.failed} of {planned} {phase} {noun} could not be {outcome}"
    if planned and not progress.prepared and not progress.left_out_for_memory:
        return f"limits in the spec leave out all {planned} {phase} {noun}"
    return None


def has_fewer_graphs(report: WarmupReport) -> bool:
    """Return True if fewer graphs are captured, or fewer buckets are executed, than planned."""
    return any(progress.prepared < progress.planned for progress in (report.prompt, report.decode))


def why_thresholds_unreachable(
    capturable: CapturableGraphsReport, planned_prompt: int, planned_decode: int, readiness: Readiness
) -> str | None:
    """Return why limits in the spec leave out too many graphs for the thresholds, as sentences; None if they do not."""
    if readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    phases = (
        (BucketPhase.PROMPT, capturable.prompt, planned_prompt, readiness.min_captured_prompt_percent),
        (BucketPhase.DECODE, capturable.decode, planned_decode, readiness.min_captured_decode_percent),
    )
    clauses = [
        f"{min_percent} % of the {phase} graphs, but limits in the spec leave only {count} of {planned}"
        for phase, count, planned, min_percent in phases
        if reaches_percent(count, planned, min_percent) is False
    ]
    if not clauses:
        return None
    return (
        f"spec.readiness requires {' and '.join(clauses)}. Raise --max-cudagraph-capture-size in "
        "spec.engine.settings, or lower the percentages in spec.readiness."
    )


def captured_counts_for_thresholds(report: WarmupReport) -> str:
    """Return a clause with the number of captured graphs, for a gate that opens because the thresholds are met."""
    if report.warmup_skipped:
        return "warm-up is switched off"
    clauses = [_count_clause(BucketPhase.PROMPT, report.prompt), _count_clause(BucketPhase.DECODE, report.decode)]
    if report.vision:
        clauses.append(f"{report.vision.warmed} of {report.vision.planned} vision buckets warmed")
    return " and ".join(clauses)


def _count_clause(phase: BucketPhase, progress: PhaseProgressReport) -> str:
    noun, outcome = progress.preparation.words
    left_out = []
    if progress.left_out_for_memory:
        needed = format_bytes(progress.left_out_bytes)
        left_out.append(f"{progress.left_out_for_memory} left out for memory, they need about {needed}")
    if progress.left_out_by_limit:
        left_out.append(f"{progress.left_out_by_limit} left out by a limit in the spec")
    suffix = f" ({'; '.join(left_out)})" if left_out else ""
    return f"{progress.prepared} of {progress.planned} {phase} {noun} {outcome}{suffix}"


def explain_threshold_shortfall(report: WarmupReport, readiness: Readiness) -> tuple[str, str] | None:
    """Return (reason, message) if a report keeps the gate closed, or None if the gate may open."""
    if report.failure is not None:
        return report.failure.reason, report.failure.message
    if report.phase is not Phase.SERVING:
        return "NotServing", f"The runtime is in phase {report.phase}."
    found = _phase_shortfalls(report, readiness)
    if not found or readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    is_incomplete = any(shortfall.is_incomplete for shortfall in found)
    summary = "Warm-up ended incomplete" if is_incomplete else "Warm-up ended below the thresholds"
    clauses = "; ".join(shortfall.clause for shortfall in found)
    message = " ".join((f"{summary}: {clauses}.", *describe_threshold_shortfalls(report, readiness)))
    return WARMUP_INCOMPLETE if is_incomplete else CAPTURED_BELOW_THRESHOLD, message
