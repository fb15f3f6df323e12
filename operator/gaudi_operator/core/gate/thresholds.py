"""The thresholds of spec.readiness, compared with the captured graphs in a report."""

from gaudi_operator.api.v1alpha1.warmup import Readiness, Shortfall
from gaudi_runtime.contract.report import (
    BucketPhase,
    Phase,
    PhaseProgress,
    VisionProgress,
    WarmupReport,
    percent,
    reaches_percent,
)

CAPTURED_BELOW_THRESHOLD = "CapturedBelowThreshold"
"""The reason of a gate that is closed because a pod has captured too few graphs."""

_MAX_REASON = 300


def shortfalls(report: WarmupReport, readiness: Readiness) -> tuple[str, ...]:
    """Return a clause for each phase below its threshold. The check compares counts, not rounded percentages."""
    return tuple(clause for _, clause in _phase_shortfalls(report, readiness))


def first_skipped_buckets(report: WarmupReport, readiness: Readiness) -> tuple[str, ...]:
    """Return a sentence for each phase below its threshold. It names the first skipped bucket and the reason."""
    first_skipped = {item.phase.value: (str(item.bucket), item.reason) for item in reversed(report.skipped)}
    if report.vision and report.vision.skipped:
        first = report.vision.skipped[0]
        first_skipped[_VISION] = f"({first.bucket})", first.reason
    return tuple(
        f"{phase_name.capitalize()} bucket {first_skipped[phase_name][0]} was the first bucket without a graph: "
        f"{first_skipped[phase_name][1][:_MAX_REASON].rstrip('.')}."
        for phase_name, _ in _phase_shortfalls(report, readiness)
        if phase_name in first_skipped
    )


_VISION = "vision"


def _phase_shortfalls(report: WarmupReport, readiness: Readiness) -> tuple[tuple[str, str], ...]:
    if report.warmup_skipped:
        return ()
    phases = (
        (BucketPhase.PROMPT, report.prompt, readiness.min_captured_prompt_percent),
        (BucketPhase.DECODE, report.decode, readiness.min_captured_decode_percent),
    )
    clauses = [(phase.value, _shortfall_clause(phase, progress, minimum)) for phase, progress, minimum in phases]
    clauses.append((_VISION, _vision_shortfall(report.vision, readiness.min_warmed_vision_percent)))
    return tuple((phase_name, clause) for phase_name, clause in clauses if clause)


def _vision_shortfall(vision: VisionProgress | None, min_percent: int) -> str | None:
    if vision is None or reaches_percent(vision.warmed, vision.planned, min_percent) is not False:
        return None
    floored = percent(vision.warmed, vision.planned)
    return f"{vision.warmed} of {vision.planned} vision buckets ({floored} %) are warm (minimum {min_percent} %)"


def _shortfall_clause(phase: BucketPhase, progress: PhaseProgress, min_percent: int) -> str | None:
    planned = progress.planned
    if planned == 0 or not progress.capture_applies:
        if progress.warmed >= planned:
            return None
        return (
            f"{progress.warmed} of {planned} {phase} buckets are warm, but an execution mode without graphs requires "
            "all of them"
        )
    if reaches_percent(progress.captured, planned, min_percent):
        return None
    floored = percent(progress.captured, planned)
    return f"{progress.captured} of {planned} {phase} graphs ({floored} %) are captured (minimum {min_percent} %)"


def captured_counts(report: WarmupReport) -> str:
    """Return a clause with the number of captured graphs, for a gate that opens because the thresholds are met."""
    if report.warmup_skipped:
        return "warm-up is switched off"
    clauses = [_count_clause(BucketPhase.PROMPT, report.prompt), _count_clause(BucketPhase.DECODE, report.decode)]
    if report.vision:
        clauses.append(f"{report.vision.warmed} of {report.vision.planned} vision buckets warmed")
    return " and ".join(clauses)


def _count_clause(phase: BucketPhase, progress: PhaseProgress) -> str:
    if progress.planned and progress.capture_applies:
        return f"{progress.captured} of {progress.planned} {phase} graphs captured"
    return f"{progress.warmed} of {progress.planned} {phase} buckets warmed"


def explain_shortfall(report: WarmupReport, readiness: Readiness) -> tuple[str, str] | None:
    """Return (reason, message) if a report does not meet the thresholds, or None if it does."""
    if report.failure is not None:
        return report.failure.reason, report.failure.message
    if report.phase is not Phase.SERVING:
        return "NotServing", f"The runtime is in phase {report.phase}."
    clauses = shortfalls(report, readiness)
    if clauses and readiness.on_shortfall is Shortfall.BLOCK:
        summary = f"Warm-up ended below the thresholds: {'; '.join(clauses)}."
        return CAPTURED_BELOW_THRESHOLD, " ".join((summary, *first_skipped_buckets(report, readiness)))
    return None
