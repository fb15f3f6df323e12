"""Forecast: the result of a forecast with sources and confidence, and whether it meets the thresholds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.contract.report import BucketPhase, meets, percent
from gaudi_runtime.errors import Problem


class Reason(StrEnum):
    """The reasons why a forecast deployment does not fit."""

    PARALLELISM = "ParallelismImpossible"
    WEIGHTS_TOO_LARGE = "WeightsTooLarge"
    NO_KV_BLOCK = "NoKvBlock"
    SEQUENCE_TOO_LONG = "SequenceTooLong"
    PLAN_IMPOSSIBLE = "PlanImpossible"
    GRAPHS_MISSING = "GraphsMissing"


@dataclass(frozen=True)
class MemoryForecast:
    """The forecast memory of one card, the fullest of the group, in bytes; `kv_blocks` is a count."""

    total: Figure
    weights: Figure
    workspace: Figure
    free: Figure
    usable: Figure
    graphs: Figure
    kv_cache: Figure
    block: Figure
    kv_blocks: Figure


@dataclass(frozen=True)
class PhaseForecast:
    """The forecast graphs of one phase. Unknown figures are None; seconds count the whole phase.

    `captured` are the graphs that are expected to fit, in capture order; None if no graphs are captured, or if the
    memory or the bytes of a graph are unknown. `captured_at_best` is the number of graphs that fit by the lowest bytes
    of all sources. `graph_bytes` is the size of the captured graphs, `all_graph_bytes` that of all planned graphs.
    """

    phase: BucketPhase
    planned: int
    captured: tuple[Bucket, ...] | None = None
    captured_at_best: int | None = None
    graph_bytes: Figure | None = None
    all_graph_bytes: Figure | None = None
    compile_seconds: Figure | None = None
    capture_seconds: Figure | None = None

    @property
    def percent(self) -> int | None:
        """The captured share of the planned graphs in percent, floored; None without graphs or buckets."""
        return None if self.captured is None else percent(len(self.captured), self.planned)


Phases = Mapping[BucketPhase, PhaseForecast]


@dataclass(frozen=True)
class Forecast:
    """The forecast of a deployment. `memory` is None if the model's shape or the card's memory is unknown.

    `captures` says whether graphs are captured at all. `plan`, `prompt` and `decode` are None if no plan is possible;
    `problems` then says why.
    """

    card: str
    model: str | None
    memory: MemoryForecast | None
    kv_blocks: Figure
    plan: BucketPlan | None
    prompt: PhaseForecast | None
    decode: PhaseForecast | None
    warmup_seconds: Figure | None
    captures: bool
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Thresholds:
    """The least captured percentage of each phase (`readiness` of a GaudiInference).

    With `at_best`, graphs have the lowest bytes of any source. A threshold that then fails cannot be met.
    """

    prompt_percent: int = 100
    decode_percent: int = 100
    at_best: bool = False


def fits(forecast: Forecast, thresholds: Thresholds) -> bool:
    """Return True if a forecast has room for the model and for the required graphs."""
    return not forecast.problems and not shortfalls(forecast, thresholds)


def shortfalls(forecast: Forecast, thresholds: Thresholds) -> tuple[Problem, ...]:
    """Return a problem for each phase whose forecast is below its percentage.

    The result is empty if the number of graphs that fit is unknown.
    """
    asked = ((forecast.prompt, thresholds.prompt_percent), (forecast.decode, thresholds.decode_percent))
    return tuple(
        Problem(Reason.GRAPHS_MISSING, _sentence(phase, least, thresholds))
        for phase, least in asked
        if phase and meets(_count(phase, thresholds), phase.planned, least) is False
    )


def unjudged(forecast: Forecast, thresholds: Thresholds) -> Mapping[BucketPhase, int]:
    """Return the percentages above 0 that cannot be judged, because the number of graphs that fit is unknown."""
    asked = ((forecast.prompt, thresholds.prompt_percent), (forecast.decode, thresholds.decode_percent))
    return {
        phase.phase: least
        for phase, least in asked
        if forecast.captures and phase and phase.planned and phase.captured is None and least > 0
    }


def gate_sentence(asked: Mapping[BucketPhase, int]) -> str:
    """Describe when the readiness gate opens, and the remedy if it stays closed."""
    graphs = " and ".join(f"{least} % of the {phase} graphs" for phase, least in asked.items())
    fields = " or ".join(f"spec.readiness.minCaptured{phase.title()}Percent" for phase in asked)
    return (
        f"How many graphs fit is unknown until the first pod has measured them. The gate opens when it has captured "
        f"{graphs}. If fewer fit, raise spec.warmup.graphMemoryPercent, lower {fields}, or set "
        "spec.readiness.onShortfall to ServeAndWarn."
    )


def reachable(forecast: Forecast, thresholds: Thresholds) -> Iterator[tuple[PhaseForecast, int]]:
    """Yield the phases with captured graphs, and the percentage that each reaches."""
    for phase in (forecast.prompt, forecast.decode):
        if phase and phase.captured is not None and phase.planned:
            yield phase, percent(_count(phase, thresholds), phase.planned) or 0


def _count(phase: PhaseForecast, thresholds: Thresholds) -> int:
    if phase.captured is None or phase.captured_at_best is None:
        return phase.planned
    return phase.captured_at_best if thresholds.at_best else len(phase.captured)


def _sentence(phase: PhaseForecast, least: int, thresholds: Thresholds) -> str:
    count = _count(phase, thresholds)
    return (
        f"about {count} of {phase.planned} {phase.phase} graphs ({percent(count, phase.planned)} %) fit into the "
        f"memory kept for graphs, and {least} % are asked for"
    )
