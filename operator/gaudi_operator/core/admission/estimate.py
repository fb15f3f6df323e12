"""The estimate of a plan on a described card, as numbers for the forecast (docs/internals/memory.md).

A spec has a forecast target if it names a described card and a known model. The forecast of such a spec needs no
checkpoint. `estimate_plan` returns the forecast figures, and bounds on the number of graphs that fit.
"""

from dataclasses import dataclass
from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.quantities import MOST_MEMORY
from gaudi_operator.core.rendering.execution_mode import runs_on_cpu
from gaudi_runtime.catalog.cards import CARDS, card_named
from gaudi_runtime.catalog.figure import Confidence, lowest_confidence
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Forecast, MemoryForecast, PhaseForecast, Reason

_NEUTRAL = frozenset({"card", "model", "timeScale", "loadSeconds", "promptTokensPerSecond", "tokensPerSecond"})
"""The keys of a simulation script that do not change the memory and graphs of the described card."""

MOST_TIME_SCALE = 1000
"""The maximum time scale of a simulation script."""


@dataclass(frozen=True)
class ForecastTarget:
    """The names of the card and the model for the forecast of a spec.

    `certain` is False if the model was only recognized by a served name. `exact` is True for a simulation, which
    behaves exactly as the description of the card. `time_scale` is the number of real seconds per described second.
    """

    card: str
    model: str
    certain: bool = True
    exact: bool = False
    time_scale: float = 1.0


def forecast_target(spec: GaudiInferenceSpec) -> ForecastTarget | None:
    """Return the card and the model of a spec, or None if either is unknown or a simulation sets its own figures."""
    if spec.engine.name is EngineName.SIM:
        return _simulated_target(spec.engine.simulation or {})
    source, card = spec.model.source.hugging_face, spec.accelerator.generation.value
    if source is not None:
        return ForecastTarget(card, source.repo) if known_shape(source.repo) else None
    # Any model can be served under any name, so a served name is only a hint (`certain=False`).
    served_name = next((name for name in spec.model.served_names if known_shape(name)), None)
    return None if served_name is None else ForecastTarget(card, served_name, certain=False)


def why_not_estimated(spec: GaudiInferenceSpec) -> str:
    """Return why a spec has no estimate, as the end of a sentence."""
    if spec.engine.name is EngineName.SIM:
        return "spec.engine.simulation has no known card and model, or sets sizes, times or faults of its own"
    if runs_on_cpu(spec.accelerator):
        return "the memory of graphs on a CPU is unknown"
    return "the model is unknown. For an estimate, add its public repository to spec.model.servedNames"


def _simulated_target(script: dict[str, str]) -> ForecastTarget | None:
    card = CARDS.get(script.get("card", "").lower())
    if card is None or not script.keys() <= _NEUTRAL:
        return None
    model = script.get("model") or (card.rates.model if card.rates else "")
    time_scale = _parse_time_scale(script.get("timeScale", "1"))
    if known_shape(model) is None or time_scale is None:
        return None
    return ForecastTarget(card.name, model, exact=True, time_scale=time_scale)


def _parse_time_scale(text: str) -> float | None:
    """Return the real seconds per simulated second, or None if the runtime refuses the value (for example NaN)."""
    try:
        scale = float(text)
    except ValueError:
        return None
    return scale if 0 <= scale <= MOST_TIME_SCALE else None


@dataclass(frozen=True)
class GraphBounds:
    """The estimate of how many of the `planned` graphs of a phase fit.

    `expected` is the likely number. `at_best` is the proven maximum.
    """

    planned: int
    expected: int
    at_best: int


@dataclass(frozen=True)
class Estimate:
    """The estimate of a plan on one described card.

    `prompt` and `decode` are None if no graphs are captured or the number of graphs cannot be estimated. `problem` is
    the reason why the deployment would not start. `problem_proven` is True if the problem does not depend on estimated
    figures.
    """

    source: str
    kv_blocks: int
    graph_bytes: int | None
    warmup_seconds: int | None
    prompt: GraphBounds | None
    decode: GraphBounds | None
    problem: Problem | None
    problem_proven: bool


def estimate_plan(inputs: ForecastInputs, target: ForecastTarget) -> Estimate | None:
    """Return the estimate, or None if the memory of the card cannot be estimated."""
    result = forecast(inputs, known_shape(target.model), card_named(target.card))
    problem = next((problem for problem in result.problems if problem.reason in _ROOM), None)
    if result.memory is None and problem is None:
        return None
    graph_figures = [phase.graph_bytes for phase in (result.prompt, result.decode) if phase and phase.graph_bytes]
    warmup_seconds = result.warmup_seconds
    return Estimate(
        source=_describe_source(result, target),
        kv_blocks=min(MOST_MEMORY, int(result.kv_blocks.value)),
        graph_bytes=round(sum(figure.value for figure in graph_figures)) if graph_figures else None,
        warmup_seconds=ceil(warmup_seconds.value * target.time_scale) if warmup_seconds else None,
        prompt=_graph_bounds(result.prompt, target),
        decode=_graph_bounds(result.decode, target),
        problem=problem,
        problem_proven=problem is not None and _is_proven(problem, result.memory, inputs, target),
    )


_FATAL = frozenset({Reason.PARALLELISM, Reason.WEIGHTS_TOO_LARGE, Reason.NO_KV_BLOCK})
"""Problems that prevent serving altogether. A sequence that is too long only affects its own request."""

_ROOM = _FATAL | {Reason.SEQUENCE_TOO_LONG}


def _is_proven(problem: Problem, memory: MemoryForecast | None, inputs: ForecastInputs, target: ForecastTarget) -> bool:
    """Return True if the problem holds without the estimated workspace. The weights of a known model are exact."""
    if problem.reason not in _FATAL:
        return False
    if target.exact or not target.certain or memory is None:
        return target.exact or (target.certain and problem.reason is Reason.PARALLELISM)
    # Compare the largest possible memory with the smallest possible block. If this block does not fit, no block fits on
    # a card of this type.
    max_free_bytes = max(0.0, memory.total.most - memory.weights.least) * inputs.utilization
    return max_free_bytes * (1 - inputs.warmup.graph_memory_share) < memory.block.least


def _graph_bounds(phase: PhaseForecast | None, target: ForecastTarget) -> GraphBounds | None:
    if phase is None or phase.captured_buckets is None:
        return None
    graph_count = len(phase.captured_buckets)
    return GraphBounds(phase.planned, graph_count, graph_count if target.exact else _proven_maximum(phase, target))


def _proven_maximum(phase: PhaseForecast, target: ForecastTarget) -> int:
    """Return the proven maximum of captured graphs. If nothing is proven, return the number of planned graphs.

    The maximum uses the lowest bytes per graph of any source.
    """
    is_measured = phase.graph_bytes is not None and phase.graph_bytes.confidence.rank <= Confidence.MEASURED.rank
    is_proven = target.certain and is_measured and phase.captured_at_best is not None
    return phase.captured_at_best or 0 if is_proven else phase.planned


def _describe_source(result: Forecast, target: ForecastTarget) -> str:
    """Return the source of the figures: the card, the model and the lowest confidence of graph sizes and times."""
    graph_figures = [phase.graph_bytes for phase in (result.prompt, result.decode) if phase]
    figures = [figure for figure in (*graph_figures, result.warmup_seconds) if figure]
    confidence = lowest_confidence(*figures) if figures else Confidence.CALCULATED
    suffix = "" if target.certain else ", recognized by its served name"
    return f"the description of card {target.card} and the model {target.model}{suffix} ({_HOW_SURE[confidence]})"


_HOW_SURE = {
    Confidence.EXACT: "exact",
    Confidence.MEASURED: "as measured with this model",
    Confidence.PUBLISHED: "as published",
    Confidence.CALCULATED: "calculated",
    Confidence.SCALED: "scaled from another model",
    Confidence.ASSUMED: "assumed",
}
