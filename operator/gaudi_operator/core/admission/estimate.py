"""What a described card would make of a plan: pure numbers for the forecast (docs/internals/memory.md has the rules).

A spec has a target where it speaks of a described card and a known model, so that it can be forecast without a
checkpoint; `estimate` is what is known then, with the bounds of how many graphs fit.
"""

from dataclasses import dataclass
from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.quantities import MOST_MEMORY
from gaudi_operator.core.rendering.runtime_config import on_cpu
from gaudi_runtime.catalog.cards import CARDS, card_named
from gaudi_runtime.catalog.figure import Confidence, weakest
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Forecast, MemoryForecast, PhaseForecast, Reason

_NEUTRAL = frozenset({"card", "model", "timeScale", "loadSeconds", "promptTokensPerSecond", "tokensPerSecond"})
"""Keys of a simulation that leave the memory and the graphs of the described card as they are."""

MOST_TIME_SCALE = 1000
"""The largest time scale that a script may have."""


@dataclass(frozen=True)
class ForecastTarget:
    """A card and a model by name.

    `sure` is False for a model that was only recognized by a served name. `exact` is True for a simulation, which
    does just what the card's description says. `time_scale` is how long a described second takes.
    """

    card: str
    model: str
    sure: bool = True
    exact: bool = False
    time_scale: float = 1.0


def forecast_target(spec: GaudiInferenceSpec) -> ForecastTarget | None:
    """The card and the model; None where one of them is unknown, or a simulation follows a script of its own."""
    if spec.engine.name is EngineName.SIM:
        return _simulated(spec.engine.simulation or {})
    source, card = spec.model.source.hugging_face, spec.accelerator.generation.value
    if source is not None:
        return ForecastTarget(card, source.repo) if known_shape(source.repo) else None
    # Only a hint: clients may call any model by this name.
    served = next((name for name in spec.model.served_names if known_shape(name)), None)
    return None if served is None else ForecastTarget(card, served, sure=False)


def why_unknown(spec: GaudiInferenceSpec) -> str:
    """Why a spec is not estimated, as the end of a sentence."""
    if spec.engine.name is EngineName.SIM:
        return "the simulation describes no known card and model, or sizes, times or faults of its own"
    if on_cpu(spec.accelerator):
        return "nothing is known of graphs on a CPU"
    return "the model is not among the known ones; a public repository among spec.model.servedNames gives an estimate"


def _simulated(script: dict[str, str]) -> ForecastTarget | None:
    card = CARDS.get(script.get("card", "").lower())
    if card is None or not script.keys() <= _NEUTRAL:
        return None
    model = script.get("model") or (card.rates.model if card.rates else "")
    time_scale = _time_scale(script.get("timeScale", "1"))
    if known_shape(model) is None or time_scale is None:
        return None
    return ForecastTarget(card.name, model, exact=True, time_scale=time_scale)


def _time_scale(text: str) -> float | None:
    """How long a simulated second takes; None where the runtime will refuse it, NaN among it."""
    try:
        scale = float(text)
    except ValueError:
        return None
    return scale if 0 <= scale <= MOST_TIME_SCALE else None


@dataclass(frozen=True)
class GraphBounds:
    """Graphs of one phase that fit, of `planned`: as expected, and as many as can fit if all that is proven holds."""

    planned: int
    expected: int
    at_best: int


@dataclass(frozen=True)
class Estimate:
    """Figures of one card. `prompt` and `decode` are None where nothing is captured or nothing is known of graphs.

    `problem` is why the deployment would not start; `proven` that it holds whatever the estimated parts are.
    """

    source: str
    kv_blocks: int
    graph_bytes: int | None
    warmup_seconds: int | None
    prompt: GraphBounds | None
    decode: GraphBounds | None
    problem: Problem | None
    proven: bool


def estimate(inputs: ForecastInputs, target: ForecastTarget) -> Estimate | None:
    """The estimate; None where not even the memory of a card can be estimated."""
    found = forecast(inputs, known_shape(target.model), card_named(target.card))
    problem = next((each for each in found.problems if each.reason in _ROOM), None)
    if found.memory is None and problem is None:
        return None
    graphs = [each.graph_bytes for each in (found.prompt, found.decode) if each and each.graph_bytes]
    seconds = found.warmup_seconds
    return Estimate(
        source=_source(found, target),
        kv_blocks=min(MOST_MEMORY, int(found.kv_blocks.value)),
        graph_bytes=round(sum(each.value for each in graphs)) if graphs else None,
        warmup_seconds=ceil(seconds.value * target.time_scale) if seconds else None,
        prompt=_bounds(found.prompt, target),
        decode=_bounds(found.decode, target),
        problem=problem,
        proven=problem is not None and _is_proven(problem, found.memory, inputs, target),
    )


_FATAL = frozenset({Reason.PARALLELISM, Reason.WEIGHTS_TOO_LARGE, Reason.NO_KV_BLOCK})
"""Without a single KV block nothing can be served; a sequence that is too long is only refused itself."""

_ROOM = _FATAL | {Reason.SEQUENCE_TOO_LONG}


def _is_proven(problem: Problem, memory: MemoryForecast | None, inputs: ForecastInputs, target: ForecastTarget) -> bool:
    """Whether the problem stands without the workspace, which is estimated; the weights of a known model are exact."""
    if problem.reason not in _FATAL:
        return False
    if target.exact or not target.sure or memory is None:
        return target.exact or (target.sure and problem.reason is Reason.PARALLELISM)
    # The best of every source: what has no room then has none on any card of this kind.
    room = max(0.0, memory.total.most - memory.weights.least) * inputs.utilization
    return room * (1 - inputs.warmup.graph_memory_share) < memory.block.least


def _bounds(phase: PhaseForecast | None, target: ForecastTarget) -> GraphBounds | None:
    if phase is None or phase.captured is None:
        return None
    expected = len(phase.captured)
    return GraphBounds(phase.planned, expected, expected if target.exact else _at_best(phase, target))


def _at_best(phase: PhaseForecast, target: ForecastTarget) -> int:
    """With the lowest bytes that any source gives; nothing is proven of a guessed model, or by another model."""
    measured = phase.graph_bytes is not None and phase.graph_bytes.confidence.rank <= Confidence.MEASURED.rank
    proven = target.sure and measured and phase.captured_at_best is not None
    return phase.captured_at_best or 0 if proven else phase.planned


def _source(found: Forecast, target: ForecastTarget) -> str:
    """The card and the model, and how sure the least sure of graphs and times is."""
    graphs = [phase.graph_bytes for phase in (found.prompt, found.decode) if phase]
    figures = [figure for figure in (*graphs, found.warmup_seconds) if figure]
    sure = weakest(*figures) if figures else Confidence.CALCULATED
    known_by = "" if target.sure else ", recognized by its served name"
    return f"the description of card {target.card} and the model {target.model}{known_by} ({_HOW_SURE[sure]})"


_HOW_SURE = {
    Confidence.EXACT: "exact",
    Confidence.MEASURED: "as measured with this model",
    Confidence.PUBLISHED: "as published",
    Confidence.CALCULATED: "calculated",
    Confidence.SCALED: "scaled from another model",
    Confidence.ASSUMED: "assumed",
}
