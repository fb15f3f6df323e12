"""How one card's memory will be divided (docs/memory.md, The sum). All sizes are bytes."""

from dataclasses import dataclass

from gaudi_runtime.catalog.cards.card import Card
from gaudi_runtime.catalog.figure import Confidence, Figure, weakest
from gaudi_runtime.catalog.models.ranks import Spread, Stage, stages
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.models.workspace import workspace_bytes
from gaudi_runtime.forecast.inputs import ForecastInputs, spread_of
from gaudi_runtime.forecast.result import MemoryForecast
from gaudi_runtime.warmup.memory import Split, split_memory

WORKSPACE_SOURCE = "formula of docs/memory.md; it says 498 MiB where seed 000 logged 504 MiB"


@dataclass(frozen=True)
class Division:
    """One card's memory before it is told: integers to go on with. `blocks` may be 0."""

    total: int
    weights: int
    workspace: int
    block: int
    split: Split
    blocks: int


def total_memory(inputs: ForecastInputs, card: Card) -> Figure | None:
    """Bytes of one card; None where neither the deployment nor the card's description says."""
    if inputs.device_memory is not None:
        return Figure(inputs.device_memory, "given for this deployment", Confidence.EXACT)
    return card.memory


def divide(inputs: ForecastInputs, shape: ModelShape, total: int) -> Division:
    """The division on the card with the fewest KV blocks. Raises PlanImpossible for ranks that cannot be."""
    spread = spread_of(inputs, shape)
    workspace = _workspace(inputs, shape, spread)
    each = (_division(inputs, stage, workspace, total) for stage in stages(shape, spread, inputs.limits.block_size))
    return min(each, key=lambda division: (division.blocks, division.split.free))


def _workspace(inputs: ForecastInputs, shape: ModelShape, spread: Spread) -> int:
    sequences = max(inputs.limits.max_num_seqs, inputs.limits.max_num_prefill_seqs)
    return workspace_bytes(shape, inputs.largest_prompt, sequences, spread.tensor, spread.dtype_bytes)


def _division(inputs: ForecastInputs, stage: Stage, workspace: int, total: int) -> Division:
    free = max(0, total - stage.weights - workspace)
    split = split_memory(free, inputs.utilization, inputs.warmup.graph_memory_share)
    return Division(total, stage.weights, workspace, stage.block, split, split.kv_cache // stage.block)


def told(division: Division, inputs: ForecastInputs, shape: ModelShape, total: Figure) -> MemoryForecast:
    """The division as figures, each with its source."""
    ranks = inputs.parallelism.tensor * inputs.parallelism.pipeline
    place = "on the one card" if ranks == 1 else f"on the fullest of {ranks} cards"
    name = shape.name or f"a {shape.family} model"
    weights = Figure(division.weights, f"the shape of {name}, {place}", Confidence.CALCULATED)
    workspace = Figure(division.workspace, WORKSPACE_SOURCE, Confidence.CALCULATED)
    sure, split = weakest(total, weights, workspace), division.split
    warmup = inputs.warmup
    return MemoryForecast(
        total=total,
        weights=weights,
        workspace=workspace,
        free=Figure(split.free, "what weights and workspace leave", sure),
        usable=Figure(split.usable, f"free * deviceMemoryUtilization {inputs.utilization:g}", sure),
        graphs=Figure(split.graphs, f"usable * graphMemoryShare {warmup.graph_memory_share:g}", sure),
        kv_cache=Figure(split.kv_cache, "usable less the share of graphs", sure),
        block=Figure(division.block, f"the shape of {name}, {place}", Confidence.CALCULATED),
        kv_blocks=Figure(division.blocks, "KV cache divided by the bytes of a block", sure),
    )
