"""The card and the model of a spec, for a forecast without a checkpoint."""

from typing import NamedTuple

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.rendering.runtime_config import runtime_config_settings
from gaudi_runtime.catalog.cards import CARDS, card_named
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import inputs_from_config

_NEUTRAL = frozenset({"card", "model", "timeScale", "loadSeconds", "promptTokensPerSecond", "tokensPerSecond"})
"""The keys of a simulation script that do not change the memory and graphs of the described card."""


class ForecastTarget(NamedTuple):
    """The names of the card and the model for the forecast of a spec."""

    card: str
    model: str


class TargetBlocks(NamedTuple):
    """An estimate of the number of KV cache blocks, and the source of the estimate."""

    blocks: int
    source: str


def forecast_target(spec: GaudiInferenceSpec) -> ForecastTarget | None:
    """Return the card and the model of a spec, or None if either is unknown or a simulation sets its own figures."""
    if spec.engine.name is EngineName.SIM:
        return _simulated_target(runtime_config_settings(spec.engine).sim_script)
    source, card = spec.model.source.hugging_face, spec.accelerator.generation.value
    if source is not None:
        return ForecastTarget(card, source.repo) if known_shape(source.repo) else None
    # Any model can be served under any name, so a served name is only a hint.
    served_name = next((name for name in spec.model.served_names if known_shape(name)), None)
    return ForecastTarget(card, served_name) if served_name else None


def _simulated_target(script: dict[str, str]) -> ForecastTarget | None:
    card = CARDS.get(script.get("card", "").lower())
    if card is None or not script.keys() <= _NEUTRAL:
        return None
    model = script.get("model") or (card.rates.model if card.rates else "")
    return ForecastTarget(card.name, model) if known_shape(model) else None


def estimate_target_blocks(config: RuntimeConfig, target: ForecastTarget) -> TargetBlocks | None:
    """Return the estimated KV blocks of a deployment, or None if the memory of the card cannot be estimated."""
    result = forecast(inputs_from_config(config), known_shape(target.model), card_named(target.card))
    if result.memory is None:
        return None
    source = f"the description of card {target.card} and the model {target.model}"
    return TargetBlocks(int(result.kv_blocks.value), source)
