"""What a deployment asks of its graphs, and whether a forecast gives it."""

from collections.abc import Iterator
from dataclasses import dataclass

from gaudi_runtime.contract.report import meets
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.result import Forecast, Misfit, PhaseForecast


@dataclass(frozen=True)
class Wanted:
    """Least captured percent of each phase (`readiness` of a GaudiInference).

    `at_best` judges by the lowest bytes that any source gives for a graph: what falls short of that cannot be met.
    """

    prompt_percent: int = 100
    decode_percent: int = 100
    at_best: bool = False


def fits(forecast: Forecast, wanted: Wanted) -> bool:
    """Whether there is room for the model and for the wanted graphs."""
    return not forecast.problems and not shortfalls(forecast, wanted)


def shortfalls(forecast: Forecast, wanted: Wanted) -> tuple[Problem, ...]:
    """A problem per phase that stays below its percentage; none where it is not known how many graphs fit."""
    asked = ((forecast.prompt, wanted.prompt_percent), (forecast.decode, wanted.decode_percent))
    return tuple(
        Problem(Misfit.GRAPHS_MISSING, _sentence(phase, percent, wanted))
        for phase, percent in asked
        if phase and meets(_count(phase, wanted), phase.planned, percent) is False
    )


def reachable(forecast: Forecast, wanted: Wanted) -> Iterator[tuple[PhaseForecast, int]]:
    """Phases whose graphs are counted, with the percentage that they reach."""
    for phase in (forecast.prompt, forecast.decode):
        if phase and phase.captured is not None and phase.planned:
            yield phase, _count(phase, wanted) * 100 // phase.planned


def _count(phase: PhaseForecast, wanted: Wanted) -> int:
    if phase.captured is None or phase.captured_at_best is None:
        return phase.planned
    return phase.captured_at_best if wanted.at_best else len(phase.captured)


def _sentence(phase: PhaseForecast, percent: int, wanted: Wanted) -> str:
    count = _count(phase, wanted)
    return (
        f"about {count} of {phase.planned} {phase.phase} graphs ({count * 100 // phase.planned} %) fit into the memory "
        f"kept for graphs, and {percent} % are asked for"
    )
