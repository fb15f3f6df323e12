"""What /livez and /readyz say, as pure judgements: None is healthy, otherwise the sentence that says why not."""

from gaudi_runtime.contract.report import Phase, WarmupReport

HEARTBEAT_LIMIT_SECONDS = 60.0
STARTING = frozenset(Phase) - {Phase.SERVING, Phase.DRAINING, Phase.FAILED}


def why_not_alive(report: WarmupReport, stall_timeout: float, heartbeat: float) -> str | None:
    """Why a restart would help, if it would. Both durations in seconds.

    While starting only standstill counts, never a fixed time (docs/warmup.md, Probes). A failed start stays
    alive: a restart would meet the same fault, and its report would be lost in a crash loop.
    """
    if report.phase in STARTING and report.since_progress_seconds > stall_timeout:
        return (
            f"Start-up stands still in phase {report.phase}{_at(report)} for {report.since_progress_seconds:.0f} s; "
            f"the stall timeout is {stall_timeout:.0f} s."
        )
    if report.phase in (Phase.SERVING, Phase.DRAINING) and heartbeat > HEARTBEAT_LIMIT_SECONDS:
        return f"The engine's loop has not turned for {heartbeat:.0f} s; the limit is {HEARTBEAT_LIMIT_SECONDS:.0f} s."
    return None


def _at(report: WarmupReport) -> str:
    """The bucket in work, if any, as part of a sentence."""
    for name, progress in (("prompt", report.prompt), ("decode", report.decode)):
        if progress.current:
            return f" at {name} bucket {tuple(progress.current)}"
    return ""


def why_not_ready(report: WarmupReport, closing: bool) -> str | None:
    """Why this instance must get no traffic, if so. `closing`: the pod is about to end but still answers."""
    if report.failure is not None:
        return f"Start-up failed ({report.failure.reason}): {report.failure.message}"
    if report.phase is not Phase.SERVING:
        return f"Phase {report.phase}: the model port is open only while serving."
    if closing:
        return "This instance is about to end; it still answers, but wants no new traffic."
    return None
