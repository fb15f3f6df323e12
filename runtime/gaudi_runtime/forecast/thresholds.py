"""Comparison of a forecast with the thresholds of the readiness gate: does it fit, and which phases fall short."""

from collections.abc import Mapping
from dataclasses import dataclass

from gaudi_runtime.contract.report import BucketPhase, percent, reaches_percent
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.result import Forecast, PhaseForecast, Reason


@dataclass(frozen=True)
class Thresholds:
    """The readiness thresholds for a forecast: the least percentage of captured graphs in each phase.

    If `at_best` is True, graphs have the lowest bytes of all sources. A threshold that fails with these bytes cannot be
    reached.
    """

    prompt_percent: int = 100
    decode_percent: int = 100
    at_best: bool = False


def fits(forecast: Forecast, thresholds: Thresholds) -> bool:
    """Return True if the forecast has no problems and reaches the thresholds of captured graphs."""
    return not forecast.problems and not shortfalls(forecast, thresholds)


def shortfalls(forecast: Forecast, thresholds: Thresholds) -> tuple[Problem, ...]:
    """Return a problem for each phase whose forecast does not reach its threshold.

    The result is empty if the number of graphs that fit is unknown.
    """
    phase_minimums = ((forecast.prompt, thresholds.prompt_percent), (forecast.decode, thresholds.decode_percent))
    return tuple(
        Problem(Reason.GRAPHS_MISSING, _shortfall_message(phase, min_percent, thresholds))
        for phase, min_percent in phase_minimums
        if phase and reaches_percent(_graph_count(phase, thresholds), phase.planned, min_percent) is False
    )


def uncheckable_thresholds(forecast: Forecast, thresholds: Thresholds) -> Mapping[BucketPhase, int]:
    """Return the thresholds above 0 % that cannot be checked, because the number of graphs that fit is unknown."""
    phase_minimums = ((forecast.prompt, thresholds.prompt_percent), (forecast.decode, thresholds.decode_percent))
    return {
        phase.phase: min_percent
        for phase, min_percent in phase_minimums
        if forecast.captures_graphs and phase and phase.planned and phase.captured_buckets is None and min_percent > 0
    }


def describe_gate(thresholds: Mapping[BucketPhase, int]) -> str:
    """Describe when the gate opens if the forecast could not check these thresholds, and the remedy."""
    minimums = " and ".join(f"{min_percent} % of the {phase} graphs" for phase, min_percent in thresholds.items())
    fields = " or ".join(f"spec.readiness.minCaptured{phase.title()}Percent" for phase in thresholds)
    return (
        f"How many graphs fit is unknown until the first pod has measured them. The gate opens when the pod has "
        f"captured {minimums}. If fewer graphs fit, raise spec.warmup.graphMemoryPercent, lower {fields}, or set "
        "spec.readiness.onShortfall to ServeAndWarn."
    )


def _graph_count(phase: PhaseForecast, thresholds: Thresholds) -> int:
    if phase.captured_buckets is None or phase.captured_at_best is None:
        return phase.planned
    return phase.captured_at_best if thresholds.at_best else len(phase.captured_buckets)


def _shortfall_message(phase: PhaseForecast, min_percent: int, thresholds: Thresholds) -> str:
    count = _graph_count(phase, thresholds)
    return (
        f"about {count} of {phase.planned} {phase.phase} graphs ({percent(count, phase.planned)} %) fit into the "
        f"memory reserved for graphs (minimum {min_percent} %)"
    )
