"""The comparison of live traffic with the forecast of a learned plan: padding and cold batches.

See docs/how-to/plan-buckets.md, Learn from traffic.
"""

from gaudi_runtime.contract.report import FEWEST_PROMPTS, BucketPhase, ServedPhaseReport, WarmupReport
from gaudi_runtime.units import plural

MOST_COLD_PERCENT = 1
"""The tolerated percentage of cold batches. The Optimal strategy covers every batch, so it forecasts 0 %."""


def why_learned_plan_missed_forecast(report: WarmupReport, max_padding_percent: int, name: str) -> str | None:
    """Return how live traffic differs from the forecast of a learned plan, and the remedy, or None.

    The result is also None if the difference is within the limits, or too little traffic was observed. `name` is the
    name of the resource. Both phases are judged after FEWEST_PROMPTS prompts have run. The number of decode batches is
    not a criterion, because consecutive decode batches are nearly identical.
    """
    served_phases = {BucketPhase.PROMPT: report.served.prompt, BucketPhase.DECODE: report.served.decode}
    if _count_batches(report.served.prompt) < FEWEST_PROMPTS:
        return None
    for phase, served_phase in served_phases.items():
        if description := _describe_excess_padding(phase, served_phase, max_padding_percent):
            return f"{description} {_advise_on_padding(report, name)}"
    for phase, served_phase in served_phases.items():
        if not report.warmup_skipped and (description := _describe_cold_batches(phase, served_phase)):
            return f"{description} {_advise_on_cold_batches(report, name)}"
    return None


def _describe_excess_padding(phase: BucketPhase, served: ServedPhaseReport, max_percent: int) -> str | None:
    padding, forecast = served.padding, served.forecast_padding
    if padding is None or forecast is None or padding <= forecast * (1 + max_percent / 100):
        return None
    return (
        f"{_count_batches(served)} {phase} batches computed {padding:.3f} times the real tokens, but the forecast for "
        f"batches of these sizes was {forecast:.3f}. spec.rollout.canary.maxPaddingPercent allows {max_percent} % more "
        "than the forecast."
    )


def _describe_cold_batches(phase: BucketPhase, served: ServedPhaseReport) -> str | None:
    batches = _count_batches(served)
    if served.forecast_padding is None or served.misses * 100 <= batches * MOST_COLD_PERCENT:
        return None
    return (
        f"{served.misses / batches:.1%} of {batches} {phase} batches had no warm graph. The forecast was 0.0%, and "
        f"{MOST_COLD_PERCENT}% is tolerated."
    )


def _advise_on_padding(report: WarmupReport, name: str) -> str:
    if report.skipped_total:
        return f"{_describe_skipped_buckets(report)}. Give warm-up more time or memory, or plan fewer graphs."
    learn = f"Run `kubectl gaudi plan learn {name} --apply` under the usual load"
    return f"The traffic differs from spec.bucketing.optimal.traffic. {learn}, or raise maxPaddingPercent."


def _advise_on_cold_batches(report: WarmupReport, name: str) -> str:
    if report.skipped_total:
        return f"{_describe_skipped_buckets(report)}. Raise spec.warmup.graphMemoryPercent, or plan fewer graphs."
    return (
        f"While the pod runs, `kubectl get gi {name} -o yaml` shows the shapes of these batches in "
        "status.recompiles.coldShapes. To keep the pod, set spec.rollout.onFailure to Pause."
    )


def _describe_skipped_buckets(report: WarmupReport) -> str:
    return f"{plural(report.skipped_total, 'planned bucket has', 'planned buckets have')} no graph"


def _count_batches(served: ServedPhaseReport) -> int:
    return served.hits + served.misses
