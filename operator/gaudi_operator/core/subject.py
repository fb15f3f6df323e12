"""Which described card and which known model a spec speaks of, so that it can be forecast without a checkpoint."""

from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.runtime_config import on_cpu
from gaudi_runtime.cards.catalog import CARDS
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.models.known import known_shape

_TOLD = frozenset({"card", "model", "timeScale", "loadSeconds", "promptTokensPerSecond", "tokensPerSecond"})
"""Keys of a simulation that leave the memory and the graphs of the described card as they are."""

MOST_TIME_SCALE = 1000
"""The largest time scale that a script may have."""


@dataclass(frozen=True)
class Subject:
    """A card and a model by name.

    `sure` is False for a model that was only recognized by a served name. `exact` is True for a simulation, which
    does just what the card's description says. `time_scale` is how long a described second takes.
    """

    card: str
    model: str
    sure: bool = True
    exact: bool = False
    time_scale: float = 1.0


def subject(spec: GaudiInferenceSpec) -> Subject | None:
    """The card and the model; None where one of them is unknown, or a simulation follows a script of its own."""
    if spec.engine.name is EngineName.SIM:
        return _simulated(spec.engine.simulation or {})
    source, card = spec.model.source.hugging_face, spec.accelerator.generation.value
    if source is not None:
        return Subject(card, source.repo) if known_shape(source.repo) else None
    served = next((name for name in spec.model.served_names if known_shape(name)), None)
    return None if served is None else Subject(card, served, sure=False)


def why_unknown(spec: GaudiInferenceSpec) -> str:
    """Why a spec is not estimated, as the end of a sentence."""
    if spec.engine.name is EngineName.SIM:
        return "the simulation describes no known card and model, or sizes, times or faults of its own"
    if on_cpu(spec.accelerator):
        return "nothing is known of graphs on a CPU"
    return "the model is not among the known ones; a public repository among spec.model.servedNames gives an estimate"


def _simulated(script: dict[str, str]) -> Subject | None:
    card = CARDS.get(script.get("card", "").lower())
    if card is None or not script.keys() <= _TOLD:
        return None
    model = script.get("model") or (card.rates.model if card.rates else "")
    time_scale = _time_scale(script.get("timeScale", "1"))
    if known_shape(model) is None or time_scale is None:
        return None
    return Subject(card.name, model, exact=True, time_scale=time_scale)


def _time_scale(text: str) -> float | None:
    """How long a simulated second takes; None where the runtime will refuse it, NaN among it."""
    try:
        scale = float(text)
    except ValueError:
        return None
    return scale if 0 <= scale <= MOST_TIME_SCALE else None
