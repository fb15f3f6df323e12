"""Comparison of a forecast with the thresholds of the readiness gate: does it fit, and which phases fall short."""

from collections.abc import Iterator, Mapping
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
    asked = ((forecast.prompt, thresholds.prompt_percent), (forecast.decode, thresholds.decode_percent))
    return tuple(
        Problem(Reason.GRAPHS_MISSING, _shortfall_message(phase, least, thresholds))
        for phase, least in asked
        if phase and reaches_percent(_graph_count(phase, thresholds), phase.planned, least) is False
    )


def uncheckable_thresholds(forecast: Forecast, thresholds: Thresholds) -> Mapping[BucketPhase, int]:
    """Return the thresholds above 0 % that cannot be checked, because the number of graphs that fit is unknown."""
    asked = ((forecast.prompt, thresholds.prompt_percent), (forecast.decode, thresholds.decode_percent))
    return {
        phase.phase: least
        for phase, least in asked
        if forecast.captures and phase and phase.planned and phase.captured is None and least > 0
    }


def describe_gate(asked: Mapping[BucketPhase, int]) -> str:
    """Describe when the gate opens if the forecast could not check these thresholds, and the remedy."""
    graphs = " and ".join(f"{least} % of the {phase} graphs" for phase, least in asked.items())
    fields = " or ".join(f"spec.readiness.minCaptured{phase.title()}Percent" for phase in asked)
    return (
        f"How many graphs fit is unknown until the first pod has measured them. The gate opens when the pod has "
        f"captured {graphs}. If fewer graphs fit, raise spec.warmup.graphMemoryPercent, lower {fields}, or set "
        "spec.readiness.onShortfall to ServeAndWarn."
    )


def reachable_thresholds(forecast: Forecast, thresholds: Thresholds) -> Iterator[tuple[PhaseForecast, int]]:
    """Yield each phase with a known number of captured graphs, and the highest threshold that it can reach."""
    for phase in (forecast.prompt, forecast.decode):
        if phase and phase.captured is not None and phase.planned:
            yield phase, percent(_graph_count(phase, thresholds), phase.planned) or 0


def _graph_count(phase: PhaseForecast, thresholds: Thresholds) -> int:
    if phase.captured is None or phase.captured_at_best is None:
        return phase.planned
    return phase.captured_at_best if thresholds.at_best else len(phase.captured)


def _shortfall_message(phase: PhaseForecast, least: int, thresholds: Thresholds) -> str:
    count = _graph_count(phase, thresholds)
    return (
        f"about {count} of {phase.planned} {phase.phase} graphs ({percent(count, phase.planned)} %) fit into the "
        f"memory reserved for graphs (minimum {least} %)"
    )
