"""Graphs of a plan: how many will fit, their bytes, and the seconds of compiling and capturing.

The measured rates of a card are scaled to another model (docs/internals/warmup.md, Scaling). The capture budget of the
runtime then runs with the resulting graph bytes (docs/internals/warmup.md, Capture budget). The result is a
PhaseForecast for each phase.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.cards import CardWarmupRates
from gaudi_runtime.catalog.figure import Confidence, Figure, lowest_confidence
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.rank_memory import QUANTIZED_BITS, RankSpread, rank_bytes_per_token
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import MemoryForecast, PhaseForecast, Phases
from gaudi_runtime.memory_split import graph_pool
from gaudi_runtime.warmup.schedule import CaptureBudget, PhaseBudget

MEASURED_DTYPE_BYTES = 2
# Seconds of warm-up in FP8, divided by seconds in 16 bits. Both were published for a model of 8 billion parameters.
FP8_COMPILE = 504 / 66
FP8_BITS = 8
FP8_SOURCE = "the published warm-up of an 8B model took 504 s in FP8 and 66 s in 16 bits"


@dataclass(frozen=True)
class PhaseRates:
    """The measured rates for the graphs of one phase: seconds per bucket, and graph bytes per unit of weight.

    See docs/internals/warmup.md, Capture budget.
    """

    compile_seconds: Figure
    capture_seconds: Figure
    bytes_per_weight: Figure


def phase_rates(
    rates: CardWarmupRates, phase: BucketPhase, shape: ModelShape | None, spread: RankSpread | None
) -> PhaseRates:
    """Return the rates for the graphs of one phase, scaled to the model.

    Without a model, the rates of the measured model are assumed.
    """
    is_prompt = phase is BucketPhase.PROMPT
    seconds_factor, bytes_factor = (
        (1.0, 1.0) if shape is None or spread is None else _scale_factors(rates.model, shape, spread)
    )
    compile_seconds = rates.prompt_compile_seconds if is_prompt else rates.decode_compile_seconds
    capture_seconds = rates.prompt_capture_seconds if is_prompt else rates.decode_capture_seconds
    bytes_per_weight = rates.prompt_graph_bytes_per_token if is_prompt else rates.decode_graph_bytes_per_sequence
    note = "by the number of layers"
    return PhaseRates(
        compile_seconds=_widen_for_fp8(
            _scale_figure(compile_seconds, seconds_factor, note, is_model_known=shape is not None), shape, spread
        ),
        capture_seconds=_scale_figure(capture_seconds, seconds_factor, note, is_model_known=shape is not None),
        bytes_per_weight=_scale_figure(
            bytes_per_weight, bytes_factor, "by layers and their width", is_model_known=shape is not None
        ),
    )


@lru_cache(maxsize=256)
def _scale_factors(measured_model: str, shape: ModelShape, spread: RankSpread) -> tuple[float, float]:
    """Return the scale factors of the seconds and of the graph bytes."""
    measured = known_shape(measured_model)
    if measured is None:
        raise LookupError(f"the rates were measured with {measured_model}, which is not among the known models")
    layer_ratio = -(-len(shape.layers) // spread.pipeline_stages) / len(measured.layers)
    # The bytes of a graph grow with the number of layers on a card and with the widest step of a layer.
    token_bytes = rank_bytes_per_token(shape, spread.tensor_ranks, spread.dtype_bytes)
    return layer_ratio, layer_ratio * token_bytes / rank_bytes_per_token(measured, 1, MEASURED_DTYPE_BYTES)


def _widen_for_fp8(figure: Figure, shape: ModelShape | None, spread: RankSpread | None) -> Figure:
    """Return the figure with a higher upper bound for FP8, whose recipes take longer to compile."""
    method = (spread and spread.quantization) or (shape and shape.quantization)
    if not method or QUANTIZED_BITS[method] != FP8_BITS:
        return figure
    # The factor is an upper bound, because it was published for one model only.
    return replace(figure, source=f"{figure.source}; {FP8_SOURCE}", high=max(figure.most, figure.value * FP8_COMPILE))


def _scale_figure(figure: Figure, factor: float, note: str, *, is_model_known: bool) -> Figure:
    if not is_model_known:
        source = f"not scaled, because the model is unknown: {figure.source}"
        return replace(figure, source=source, confidence=Confidence.ASSUMED)
    if factor == 1:
        return figure
    return Figure(
        value=figure.value * factor,
        source=f"scaled {note} (times {factor:.3g}): {figure.source}",
        confidence=lowest_confidence(figure, replace(figure, confidence=Confidence.SCALED)),
        low=None if figure.low is None else figure.low * factor,
        high=None if figure.high is None else figure.high * factor,
    )


Rates = Mapping[BucketPhase, PhaseRates]
GraphBytes = Callable[[BucketPhase, Bucket], int]


def phase_forecasts(inputs: ForecastInputs, plan: BucketPlan, rates: Rates, memory: MemoryForecast | None) -> Phases:
    """Forecast the graphs of both phases: how many fit, their bytes and their seconds.

    Without `memory`, the number of graphs that fit is unknown. If no log shows the bytes of a graph, the number and the
    bytes are unknown, and the seconds assume that every graph is captured.
    """
    bytes_of, min_bytes_of = (
        _graph_bytes_function(rates, inputs.limits.block_size, lowest=lowest) for lowest in (False, True)
    )
    likely = best = None
    if memory and inputs.captures and not inputs.has_unmeasured_graphs:
        likely, best = (_simulate_capture(inputs, plan, memory, size) for size in (bytes_of, min_bytes_of))

    def forecast_phase(phase: BucketPhase) -> PhaseForecast:
        buckets, rate = plan.buckets_of(phase), rates[phase].bytes_per_weight
        planned_count = len(buckets)
        compiled_count = planned_count if inputs.warmup.enabled else 0
        captured_count = (len(likely[phase].captured) if likely else planned_count) if inputs.captures else 0
        # Smaller graphs do not always allow more graphs: one large graph may take the memory of several small graphs.
        max_captured = max(captured_count, len(best[phase].captured)) if best else captured_count
        all_bytes, lowest_bytes = (sum(size(phase, bucket) for bucket in buckets) for size in (bytes_of, min_bytes_of))
        return PhaseForecast(
            phase=phase,
            planned=planned_count,
            captured_buckets=tuple(likely[phase].captured) if likely else None,
            captured_at_best=max_captured if best else None,
            graph_bytes=Figure(likely[phase].graph_bytes, rate.source, rate.confidence) if likely else None,
            all_graph_bytes=None
            if inputs.has_unmeasured_graphs
            else Figure(all_bytes, rate.source, rate.confidence, low=lowest_bytes),
            compile_seconds=_total_seconds(rates[phase].compile_seconds, compiled_count, compiled_count),
            capture_seconds=_total_seconds(rates[phase].capture_seconds, captured_count, max_captured),
        )

    return {phase: forecast_phase(phase) for phase in BucketPhase}


def _graph_bytes_function(rates: Rates, block_size: int, *, lowest: bool) -> GraphBytes:
    """Return a function for the bytes of a graph, from the rates or from the lowest rates of all sources."""
    figures = {phase: rate.bytes_per_weight for phase, rate in rates.items()}
    per_weight = {phase: figure.least if lowest else figure.value for phase, figure in figures.items()}
    return lambda phase, bucket: int(per_weight[phase] * bucket_weight(phase, bucket, block_size))


def _simulate_capture(
    inputs: ForecastInputs, plan: BucketPlan, memory: MemoryForecast, graph_bytes: GraphBytes
) -> dict[BucketPhase, PhaseBudget]:
    """Return the capture budgets after a capture as the runtime would do it with these graph bytes."""
    blocks = memory.kv_blocks.value if inputs.kv_blocks is None else inputs.kv_blocks
    free_bytes = int(max(0, memory.free.value - blocks * memory.block.value))
    budget = CaptureBudget(
        plan,
        graph_pool(free_bytes, int(memory.free.value - memory.usable.value), inputs.warmup.prompt_ratio),
        block_size=inputs.limits.block_size,
        prompt_order=inputs.warmup.prompt_order,
        decode_order=inputs.warmup.decode_order,
    )
    # The first graph of a phase has no estimate yet, so it may exceed the share of the phase. The phase ends only if
    # the graph exceeds the free memory.
    while step := budget.next_step():
        size = graph_bytes(step.phase, step.bucket)
        if size > free_bytes:
            budget.phase_budget(step.phase).record_out_of_memory("the estimate does not fit")
        else:
            budget.phase_budget(step.phase).record_captured(size)
            free_bytes -= size
    return {phase: budget.phase_budget(phase) for phase in BucketPhase}


def _total_seconds(figure: Figure, count: int, max_count: int) -> Figure:
    """Return the seconds for `count` buckets. The upper bound is the time for `max_count` buckets."""
    low = None if figure.low is None else figure.low * count
    high = None if figure.high is None and max_count == count else figure.most * max_count
    return Figure(figure.value * count, f"{count} times: {figure.source}", figure.confidence, low, high)
