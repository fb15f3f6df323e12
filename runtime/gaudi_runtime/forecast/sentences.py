"""What a forecast says in words: why a deployment does not fit, and what its figures leave out."""

from collections.abc import Iterator

from gaudi_runtime.catalog.cards.card import Card
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.catalog.models.quantization import Quantization
from gaudi_runtime.catalog.models.quantized import ASKED_FOR
from gaudi_runtime.catalog.models.shape import Attention, ModelShape
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import MemoryForecast, Misfit
from gaudi_runtime.units import gib

DISCLAIMER = "All figures are estimates; the runtime measures on the card and reports what it found."


def room_problems(inputs: ForecastInputs, memory: MemoryForecast | None) -> tuple[Problem, ...]:
    """At most one: weights that do not fit, no KV block, or too few for a single sequence."""
    if memory is None or inputs.kv_blocks is not None:
        return ()
    if memory.free.value < 1:
        return (Problem(Misfit.WEIGHTS_TOO_LARGE, _weights_too_large(memory)),)
    if memory.kv_blocks.value < 1:
        return (Problem(Misfit.NO_KV_BLOCK, _no_block(memory)),)
    if memory.kv_blocks.value < inputs.blocks_per_sequence:
        return (Problem(Misfit.SEQUENCE_TOO_LONG, _sequence_too_long(inputs, memory)),)
    return ()


def _weights_too_large(memory: MemoryForecast) -> str:
    return (
        f"weights of about {gib(memory.weights.value)} and a workspace of about {gib(memory.workspace.value)} leave "
        f"nothing of the {gib(memory.total.value)} of a card"
    )


def _no_block(memory: MemoryForecast) -> str:
    return f"about {gib(memory.kv_cache.value)} are left for the KV cache and one block takes {gib(memory.block.value)}"


def _sequence_too_long(inputs: ForecastInputs, memory: MemoryForecast) -> str:
    return (
        f"a sequence of maxModelLen = {inputs.limits.max_model_len} tokens needs {inputs.blocks_per_sequence} KV "
        f"blocks and about {int(memory.kv_blocks.value)} fit"
    )


def notes(inputs: ForecastInputs, shape: ModelShape | None, card: Card, blocks: Figure) -> tuple[str, ...]:
    """What a reader must know to judge the figures, the general first."""
    return (
        DISCLAIMER,
        *_model_notes(shape, blocks),
        *_quantization_notes(inputs, shape),
        *_card_notes(card),
        *_time_notes(inputs),
    )


def _model_notes(shape: ModelShape | None, blocks: Figure) -> Iterator[str]:
    if shape is None:
        yield (
            f"The model's shape is unknown, so weights, KV cache and captured graphs are too; {int(blocks.value)} KV "
            "blocks are assumed."
        )
    elif any(isinstance(layer.attention, Attention) and layer.attention.window for layer in shape.layers):
        yield "Some layers look back a window only; their KV cache is counted in full, as the servers allocate it."


def _quantization_notes(inputs: ForecastInputs, shape: ModelShape | None) -> Iterator[str]:
    """INC and FP8 convert any checkpoint, the other methods are a format that only the checkpoint knows."""
    asked = inputs.quantization
    if shape is None or asked in (None, QuantizationMethod.INC, QuantizationMethod.FP8):
        return
    if shape.quantization is None:
        yield f"The checkpoint's own {asked} format is not known; its weights are taken as {_format(ASKED_FOR[asked])}."


def _format(quantization: Quantization) -> str:
    group = f" in groups of {quantization.group}" if quantization.group else ""
    return f"{quantization.bits} bits{group}"


def _card_notes(card: Card) -> Iterator[str]:
    if card.rates is None:
        yield f"Nothing is known of graphs and times on card {card.name!r}: they show when the first pod warms up."


def _time_notes(inputs: ForecastInputs) -> Iterator[str]:
    budget = inputs.warmup.time_budget_seconds
    if budget is not None:
        yield f"Buckets that warmup.timeBudgetSeconds = {budget} would leave out are counted as warmed."
