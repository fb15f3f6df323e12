"""The forecast of a deployment from its inputs, a model and a card (docs/internals/warmup.md). Pure."""

from collections.abc import Iterator
from dataclasses import replace

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.cards import Card, assume_card_rates
from gaudi_runtime.catalog.figure import Confidence, Figure, lowest_confidence
from gaudi_runtime.catalog.layer_types import (
    LayerKinds,
    adjust_limits_to_layers,
    layer_kinds_of_shape,
    refused_settings,
)
from gaudi_runtime.catalog.models.rank_memory import QUANTIZED_BITS
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.contract.config import CaptureOrder, ExecutionMode, QuantizationMethod
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible, Problem
from gaudi_runtime.forecast.graphs import phase_forecasts, phase_rates
from gaudi_runtime.forecast.inputs import ForecastInputs, model_spread
from gaudi_runtime.forecast.memory import forecast_memory, total_memory
from gaudi_runtime.forecast.result import Forecast, MemoryForecast, PhaseForecast, Phases, Reason
from gaudi_runtime.planning.kept_plans import kept_plan
from gaudi_runtime.units import format_gib, plural
from gaudi_runtime.warmup.cover_first import cover_first


def forecast(inputs: ForecastInputs, shape: ModelShape | None, card: Card) -> Forecast:
    """Forecast memory, graphs and warm-up time of a deployment from its inputs, the shape of a model, and a card.

    If `shape` is None, the forecast has only the figures that do not depend on a model. For a deployment that does not
    fit, `problems` contains the reasons; no error is raised.
    """
    kinds = layer_kinds_of_shape(shape) if shape else LayerKinds()
    inputs = replace(inputs, limits=adjust_limits_to_layers(inputs.limits, kinds, inputs.parallelism.data))
    total = total_memory(inputs, card)
    memory, problems = _memory_and_problems(inputs, shape, total)
    blocks = _kv_blocks(inputs, memory)
    can_plan = blocks.value >= 1 and not problems
    plan, plan_problems = _plan_and_problems(inputs, int(blocks.value)) if can_plan else (None, ())
    phases = _forecast_phases(inputs, plan, shape, card, memory) if plan else {}
    return Forecast(
        card=card.name,
        model=(shape.name or shape.family) if shape else None,
        memory=memory,
        kv_blocks=blocks,
        plan=plan,
        prompt=phases.get(BucketPhase.PROMPT),
        decode=phases.get(BucketPhase.DECODE),
        warmup_seconds=_warmup_seconds(inputs, phases),
        captures_graphs=inputs.captures,
        problems=(*problems, *_memory_problems(inputs, memory), *plan_problems, *_layer_problems(inputs, kinds)),
        notes=(*_notes(inputs, shape, kinds, card, blocks), *_time_budget_notes(inputs, plan, int(blocks.value))),
    )


def _memory_and_problems(
    inputs: ForecastInputs, shape: ModelShape | None, total: Figure | None
) -> tuple[MemoryForecast | None, tuple[Problem, ...]]:
    if shape is None or total is None:
        return None, ()
    length = inputs.limits.max_model_len
    if shape.max_length is not None and length > shape.max_length and not inputs.extends_length:
        message = f"maxModelLen is {length}, but the model supports at most {shape.max_length} tokens"
        return None, (Problem(Reason.LENGTH, message),)
    try:
        return forecast_memory(inputs, shape, total), ()
    except PlanImpossible as error:
        return None, (Problem(Reason.PARALLELISM, str(error)),)


def _kv_blocks(inputs: ForecastInputs, memory: MemoryForecast | None) -> Figure:
    if inputs.kv_blocks is not None:
        return Figure(inputs.kv_blocks, "given", Confidence.EXACT)
    if memory is not None:
        return memory.kv_blocks
    return Figure(inputs.useful_blocks, "enough for maxNumSeqs sequences of maxModelLen", Confidence.ASSUMED)


def _plan_and_problems(inputs: ForecastInputs, blocks: int) -> tuple[BucketPlan | None, tuple[Problem, ...]]:
    try:
        return kept_plan(inputs.policy, inputs.limits, blocks), ()
    except PlanImpossible as error:
        return None, (Problem(Reason.PLAN_IMPOSSIBLE, str(error)),)


def _forecast_phases(
    inputs: ForecastInputs, plan: BucketPlan, shape: ModelShape | None, card: Card, memory: MemoryForecast | None
) -> Phases:
    if card.rates is None:
        return {phase: PhaseForecast(phase, len(plan.buckets_of(phase))) for phase in BucketPhase}
    spread, card_rates = model_spread(inputs, shape) if shape else None, card.rates
    if inputs.execution_mode is ExecutionMode.TORCH_COMPILE:
        card_rates = assume_card_rates(card_rates, "measured with HPU graphs")
    rates = {phase: phase_rates(card_rates, phase, shape, spread) for phase in BucketPhase}
    return phase_forecasts(inputs, plan, rates, memory)


def _warmup_seconds(inputs: ForecastInputs, phases: Phases) -> Figure | None:
    """Return the seconds of compiling and capturing, with the bounds of all sources; None if no rate is known."""
    figures = [
        figure for phase in phases.values() for figure in (phase.compile_seconds, phase.capture_seconds) if figure
    ]
    if not figures:
        return None
    source = "compile and capture times of all buckets, without the times of loading, sampler and defragmenter"
    if not inputs.warmup.enabled:
        source = "warm-up is off, so every shape is compiled at its first use while serving"
    return Figure(
        value=sum(figure.value for figure in figures),
        source=source,
        confidence=lowest_confidence(*figures),
        low=sum(figure.least for figure in figures),
        high=sum(figure.most for figure in figures),
    )


def _memory_problems(inputs: ForecastInputs, memory: MemoryForecast | None) -> Iterator[Problem]:
    """Yield at most one problem: the weights, a KV block, or the blocks of one sequence do not fit."""
    # A given number of blocks was measured on a card, so these blocks fit.
    if memory is None or inputs.kv_blocks is not None:
        return
    if memory.free.value < 1:
        yield Problem(
            Reason.WEIGHTS_TOO_LARGE,
            f"the weights (about {format_gib(memory.weights.value)}) and the workspace (about "
            f"{format_gib(memory.workspace.value)}) leave no free memory on a card with "
            f"{format_gib(memory.total.value)}",
        )
    elif memory.kv_blocks.value < 1:
        yield Problem(
            Reason.NO_KV_BLOCK,
            f"about {format_gib(memory.kv_cache.value)} are left for the KV cache, but one KV block takes "
            f"{format_gib(memory.block.value)}",
        )
    elif memory.kv_blocks.value < inputs.blocks_per_sequence:
        yield Problem(
            Reason.SEQUENCE_TOO_LONG,
            f"a sequence of maxModelLen = {inputs.limits.max_model_len} tokens needs {inputs.blocks_per_sequence} KV "
            f"blocks, but only about {int(memory.kv_blocks.value)} fit",
        )


def _layer_problems(inputs: ForecastInputs, kinds: LayerKinds) -> Iterator[Problem]:
    """Yield a problem for each setting with which vLLM's plugin gives wrong answers for the layers of the model."""
    for sentence in refused_settings(kinds, inputs.limits, caches_states=PAIRS[0].caches_states):
        yield Problem(Reason.SETTING_REFUSED, sentence.rstrip("."))


UNMEASURED = (
    "The size of graphs is unknown until the first pod has measured graphs, because no public log shows graphs of "
    "torch.compile on a card. Seconds are calculated with the rates of HPU graphs."
)
CONTIGUOUS_OFF = "Contiguous paged attention is off, because the model has layers of several kinds."
DISCLAIMER = "All figures are estimates. The runtime measures on the card and reports the measured figures."


def _notes(
    inputs: ForecastInputs, shape: ModelShape | None, kinds: LayerKinds, card: Card, blocks: Figure
) -> Iterator[str]:
    """Yield notes that explain the figures to the reader, general notes first."""
    yield DISCLAIMER
    if shape is None:
        yield (
            "The model's shape is unknown, so the sizes of weights, KV cache and graphs are also unknown. The plan "
            f"assumes {int(blocks.value)} KV blocks."
        )
    elif any(layer.windowed for layer in shape.layers):
        yield (
            "Some layers use a sliding window. The KV cache of these layers is counted in full, because servers "
            "allocate the full size."
        )
    if kinds.is_mixed:
        yield CONTIGUOUS_OFF
    if shape is not None and shape.takes_images:
        yield "The workspace does not include the memory for images. The first pod measures this memory."
    method = inputs.quantization
    # INC and FP8 convert any checkpoint. Every other method needs a checkpoint that is stored in its format.
    converts = method in (None, QuantizationMethod.INC, QuantizationMethod.FP8)
    if shape is not None and shape.quantization is None and method is not None and not converts:
        yield f"The {method} format of the checkpoint is unknown. Weights of {QUANTIZED_BITS[method]} bits are assumed."
    if inputs.has_unmeasured_graphs and card.rates is not None:
        yield UNMEASURED
    if card.rates is None:
        yield f"Graph sizes and warm-up times on card {card.name!r} are unknown until the first pod warms up."


def _time_budget_notes(inputs: ForecastInputs, plan: BucketPlan | None, kv_blocks: int) -> Iterator[str]:
    """Yield notes about buckets that a time budget may leave out, and about buckets that it never leaves out."""
    warmup = inputs.warmup
    budget = warmup.time_budget_seconds
    if budget is None:
        return
    yield f"All buckets count as warmed, although warmup.timeBudgetSeconds = {budget} may leave out some buckets."
    if plan is None:
        return
    orders = {BucketPhase.PROMPT: warmup.prompt_order, BucketPhase.DECODE: warmup.decode_order}
    covering = [
        plural(cover_first(plan, phase, inputs.limits, kv_blocks).covering_count, f"{phase} bucket")
        for phase, order in orders.items()
        if order is CaptureOrder.COVER_FIRST
    ]
    if covering:
        yield (
            f"With any time budget, warm-up first compiles {' and '.join(covering)}, which cover every shape of the "
            "plan. Requests are padded only to warm buckets."
        )
