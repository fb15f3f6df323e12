"""PhaseForecasts of a plan: graphs that fit, their bytes, and the seconds of compiling and capturing."""

from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.forecast.capture import Captured, Rates, Room, at_best, capture, expected
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.memory import Division
from gaudi_runtime.forecast.rates import PhaseRates
from gaudi_runtime.forecast.result import PhaseForecast, Phases
from gaudi_runtime.warmup.memory import graph_pool


def no_graphs(plan: BucketPlan) -> Phases:
    """What is known of a plan on a card without rates: its size."""
    return {phase: PhaseForecast(phase, len(plan.of(phase))) for phase in BucketPhase}


def phase_forecasts(inputs: ForecastInputs, plan: BucketPlan, rates: Rates, division: Division | None) -> Phases:
    """Both phases. Without a division it is not known how many graphs fit, only what all of them would take."""
    sizes = (expected(rates, inputs.limits.block_size), at_best(rates, inputs.limits.block_size))
    room = _room(inputs, division) if division and inputs.captures else None
    likely, most = (capture(inputs, plan, room, size) if room else None for size in sizes)
    return {
        phase: _phase(
            _All(phase, plan.of(phase), *(sum(size(phase, bucket) for bucket in plan.of(phase)) for size in sizes)),
            inputs,
            rates[phase],
            likely[phase] if likely else None,
            most[phase] if most else None,
        )
        for phase in BucketPhase
    }


@dataclass(frozen=True)
class _All:
    """All buckets of a phase, and the bytes of their graphs: expected, and at the least."""

    phase: BucketPhase
    buckets: tuple[Bucket, ...]
    expected: int
    least: int


def _room(inputs: ForecastInputs, division: Division) -> Room:
    """What is free once the KV cache is allocated; the pool is that less the margin."""
    blocks = division.blocks if inputs.kv_blocks is None else inputs.kv_blocks
    free_now = max(0, division.split.free - blocks * division.block)
    return Room(free_now, graph_pool(free_now, division.split.margin, inputs.warmup.prompt_ratio))


def _phase(
    planned: _All, inputs: ForecastInputs, rates: PhaseRates, likely: Captured | None, most: Captured | None
) -> PhaseForecast:
    rate, count = rates.bytes_per_weight, len(planned.buckets)
    compiled = count if inputs.warmup.enabled else 0
    captured = (len(likely.buckets) if likely else count) if inputs.captures else 0
    best = max(captured, len(most.buckets)) if most else captured
    return PhaseForecast(
        phase=planned.phase,
        planned=count,
        captured=likely.buckets if likely else None,
        captured_at_best=best if most else None,
        graph_bytes=Figure(likely.graph_bytes, rate.source, rate.confidence) if likely else None,
        all_graph_bytes=Figure(planned.expected, rate.source, rate.confidence, low=planned.least),
        compile_seconds=_times(rates.compile_seconds, compiled, compiled),
        capture_seconds=_times(rates.capture_seconds, captured, best),
    )


def _times(figure: Figure, count: int, most: int) -> Figure:
    """Seconds of `count` buckets, at the most of `most` ones."""
    low = None if figure.low is None else figure.low * count
    high = None if figure.high is None and most == count else figure.most * most
    return Figure(figure.value * count, f"{count} times: {figure.source}", figure.confidence, low, high)
