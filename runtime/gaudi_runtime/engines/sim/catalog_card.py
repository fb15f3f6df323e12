"""A simulated card from a card and a model of the catalog, calculated like the forecast (docs/internals/warmup.md).

No other module of this engine imports the catalog.
"""

from gaudi_runtime.catalog.cards import Card, card_named
from gaudi_runtime.catalog.figure import Confidence, Figure
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.sim.card import DEFAULT_MEMORY, SimCard, SimCardPhaseCost, imaginary_sim_card
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.forecast.graphs import phase_rates
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_from_config, model_spread
from gaudi_runtime.forecast.memory import forecast_memory, total_memory


def sim_card_from_catalog(config: RuntimeConfig, card_name: str, model: str | None) -> SimCard:
    """Return a simulated card with the values of a card and a model in the catalog.

    If `model` is None, use the model that the card was measured with. Raises ConfigError for an unknown card or model,
    and PlanImpossible if the ranks are not possible.
    """
    catalog_card = card_named(card_name)
    shape = _find_shape(model or (catalog_card.rates.model if catalog_card.rates else None))
    inputs = inputs_from_config(config)
    total = total_memory(inputs, catalog_card) or Figure(DEFAULT_MEMORY, "the imaginary card", Confidence.ASSUMED)
    memory = forecast_memory(inputs, shape, total)
    return SimCard(
        name=catalog_card.name,
        model=shape.name or shape.family,
        memory_bytes=int(total.value),
        weight_bytes=int(memory.weights.value),
        workspace_bytes=int(memory.workspace.value),
        block_bytes=int(memory.block.value),
        prompt_cost=_phase_cost(catalog_card, BucketPhase.PROMPT, shape, inputs),
        decode_cost=_phase_cost(catalog_card, BucketPhase.DECODE, shape, inputs),
    )


def _find_shape(model: str | None) -> ModelShape:
    shape = known_shape(model) if model else None
    if shape is None:
        raise ConfigError(
            f"engine.simScript.model: {model!r} is not a known model. Set the repository of a public model, or "
            "remove card and model from engine.simScript and set the sizes there."
        )
    return shape


def _phase_cost(card: Card, phase: BucketPhase, shape: ModelShape, inputs: ForecastInputs) -> SimCardPhaseCost:
    if card.rates is None:
        return imaginary_sim_card().scripted_cost(phase)
    rates = phase_rates(card.rates, phase, shape, model_spread(inputs, shape))
    return SimCardPhaseCost(rates.compile_seconds.value, rates.capture_seconds.value, rates.bytes_per_weight.value)
