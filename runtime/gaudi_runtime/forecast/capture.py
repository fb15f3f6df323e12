"""Which graphs will fit: the real capture budget, fed with estimated bytes (docs/warmup.md, Capture budget)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan, weight
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.rates import PhaseRates
from gaudi_runtime.warmup.budget import CaptureBudget
from gaudi_runtime.warmup.memory import GraphPool

Rates = Mapping[BucketPhase, PhaseRates]
GraphBytes = Callable[[BucketPhase, Bucket], int]


@dataclass(frozen=True)
class Room:
    """Bytes when capture begins: what is free, and the pool of it that graphs may take."""

    free: int
    pool: GraphPool


@dataclass(frozen=True)
class Captured:
    """Graphs of one phase, in the order of their capture, and their bytes."""

    buckets: tuple[Bucket, ...]
    graph_bytes: int


def expected(rates: Rates, block_size: int) -> GraphBytes:
    """Bytes of a graph as the rates say."""
    per_weight = {phase: each.bytes_per_weight.value for phase, each in rates.items()}
    return lambda phase, bucket: int(per_weight[phase] * weight(phase, bucket, block_size))


def at_best(rates: Rates, block_size: int) -> GraphBytes:
    """Bytes of a graph where every source's lowest rate holds."""
    per_weight = {phase: each.bytes_per_weight.least for phase, each in rates.items()}
    return lambda phase, bucket: int(per_weight[phase] * weight(phase, bucket, block_size))


def capture(
    inputs: ForecastInputs, plan: BucketPlan, room: Room, graph_bytes: GraphBytes
) -> dict[BucketPhase, Captured]:
    """What the runtime would capture if its graphs had these bytes.

    The first graph of a phase is captured untried, whatever the pool; one larger than the free memory ends its phase.
    """
    budget = CaptureBudget(
        plan,
        room.pool,
        block_size=inputs.limits.block_size,
        prompt_order=inputs.warmup.prompt_order,
        decode_order=inputs.warmup.decode_order,
    )
    left = room.free
    while step := budget.next():
        size = graph_bytes(step.phase, step.bucket)
        if size > left:
            budget.of(step.phase).fail()
        else:
            budget.of(step.phase).take(size)
            left -= size
    return {each.phase: Captured(tuple(each.captured), each.graph_bytes) for each in map(budget.of, BucketPhase)}
