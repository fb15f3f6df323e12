"""PhaseForecasts of a plan: graphs that fit, their bytes, and the seconds of compiling and capturing."""

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.figure import Figure
from gaudi_runtime.forecast.capture import Captured, GraphBytes, Rates, Room, at_best, capture, expected
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.memory import Division
from gaudi_runtime.forecast.rates import PhaseRates
from gaudi_runtime.forecast.result import PhaseForecast, Phases
from gaudi_runtime.memory import graph_pool


def no_graphs(plan: BucketPlan) -> Phases:
    """What is known of a plan on a card without rates: its size."""
    return {phase: PhaseForecast(phase, len(plan.of(phase))) for phase in BucketPhase}


def phase_forecasts(inputs: ForecastInputs, plan: BucketPlan, rates: Rates, division: Division | None) -> Phases:
    """Both phases. Without a division it is not known how many graphs fit, only what all of them would take."""
    sizes, best = expected(rates, inputs.limits.block_size), at_best(rates, inputs.limits.block_size)
    room = _room(inputs, division) if division and inputs.captures else None
    likely = capture(inputs, plan, room, sizes) if room else {}
    most = capture(inputs, plan, room, best) if room else {}
    return {
        phase: _phase(inputs, plan, phase, rates[phase], (sizes, best), likely.get(phase), most.get(phase))
        for phase in BucketPhase
    }


def _room(inputs: ForecastInputs, division: Division) -> Room:
    """What is free once the KV cache is allocated; the pool is that less the margin."""
    blocks = division.blocks if inputs.kv_blocks is None else inputs.kv_blocks
    free_now = max(0, division.split.free - blocks * division.block)
    return Room(free_now, graph_pool(free_now, division.split.margin, inputs.warmup.prompt_ratio))


def _phase(
    inputs: ForecastInputs,
    plan: BucketPlan,
    phase: BucketPhase,
    rates: PhaseRates,
    sizes: tuple[GraphBytes, GraphBytes],
    likely: Captured | None,
    most: Captured | None,
) -> PhaseForecast:
    planned = plan.of(phase)
    likely_bytes, best_bytes = (sum(size(phase, bucket) for bucket in planned) for size in sizes)
    rate = rates.bytes_per_weight
    compiled = len(planned) if inputs.warmup.enabled else 0
    captured = len(likely.buckets if likely else planned) if inputs.captures else 0
    return PhaseForecast(
        phase=phase,
        planned=len(planned),
        captured=likely.buckets if likely else None,
        captured_at_best=max(len(most.buckets), len(likely.buckets)) if most and likely else None,
        graph_bytes=Figure(likely.graph_bytes, rate.source, rate.confidence) if likely else None,
        all_graph_bytes=Figure(likely_bytes, rate.source, rate.confidence, low=best_bytes),
        compile_seconds=_times(rates.compile_seconds, compiled),
        capture_seconds=_times(rates.capture_seconds, captured),
    )


def _times(figure: Figure, count: int) -> Figure:
    low = None if figure.low is None else figure.low * count
    high = None if figure.high is None else figure.high * count
    return Figure(figure.value * count, f"{count} times: {figure.source}", figure.confidence, low, high)
