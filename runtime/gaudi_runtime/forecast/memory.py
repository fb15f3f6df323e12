"""The memory forecast: the division of one card's memory, in bytes (docs/internals/memory.md, The sum)."""

from gaudi_runtime.catalog.cards import Card
from gaudi_runtime.catalog.figure import Confidence, Figure, lowest_confidence
from gaudi_runtime.catalog.models.rank_memory import StageMemory, stage_memory, workspace_bytes
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.forecast.inputs import ForecastInputs, model_spread
from gaudi_runtime.forecast.result import MemoryForecast
from gaudi_runtime.memory_split import DeviceMemorySplit, split_memory

WORKSPACE_SOURCE = "formula in the manual (Memory): 498 MiB calculated, 504 MiB measured in log 000"


def total_memory(inputs: ForecastInputs, card: Card) -> Figure | None:
    """Return the memory of one card in bytes; None if neither the deployment nor the catalog states it."""
    if inputs.device_memory is not None:
        return Figure(inputs.device_memory, "given for this deployment", Confidence.EXACT)
    return card.memory


def forecast_memory(inputs: ForecastInputs, shape: ModelShape, total: Figure) -> MemoryForecast:
    """Forecast the memory split of the card with the fewest KV blocks. Raises PlanImpossible for impossible ranks."""
    spread = model_spread(inputs, shape)
    # The profile run processes the largest prompt batch, and then samples a token for every sequence.
    sequences = max(inputs.limits.max_num_seqs, inputs.limits.max_num_prefill_seqs)
    workspace = workspace_bytes(shape, inputs.largest_prompt, sequences, spread.tensor, spread.dtype_bytes)

    def stage_split(stage: StageMemory) -> DeviceMemorySplit:
        free = max(0, int(total.value) - stage.weights - workspace)
        return split_memory(free, inputs.utilization, inputs.warmup.graph_memory_share)

    cards = [(stage, stage_split(stage)) for stage in stage_memory(shape, spread, inputs.limits.block_size)]
    # Every card holds a part of every block, so the card with the fewest blocks limits the number of blocks.
    fullest, split = min(cards, key=lambda card: (card[1].kv_cache // card[0].block, card[1].free))
    return _build_forecast(inputs, shape, total, workspace, fullest, split)


def _build_forecast(
    inputs: ForecastInputs,
    shape: ModelShape,
    total: Figure,
    workspace: int,
    fullest: StageMemory,
    split: DeviceMemorySplit,
) -> MemoryForecast:
    ranks = inputs.parallelism.tensor * inputs.parallelism.pipeline
    place = "on the one card" if ranks == 1 else f"on the fullest of {ranks} cards"
    shape_of = f"the shape of {shape.name or f'a {shape.family} model'}, {place}"
    weights = Figure(fullest.weights, shape_of, Confidence.CALCULATED)
    work = Figure(workspace, WORKSPACE_SOURCE, Confidence.CALCULATED)
    sure = lowest_confidence(total, weights, work)
    return MemoryForecast(
        total=total,
        weights=weights,
        workspace=work,
        free=Figure(split.free, "total less weights and workspace", sure),
        usable=Figure(split.usable, f"free * deviceMemoryUtilization {inputs.utilization:g}", sure),
        graphs=Figure(split.graphs, f"usable * graphMemoryShare {inputs.warmup.graph_memory_share:g}", sure),
        kv_cache=Figure(split.kv_cache, "usable less graphs", sure),
        block=Figure(fullest.block, shape_of, Confidence.CALCULATED),
        kv_blocks=Figure(split.kv_cache // fullest.block, "KV cache divided by the bytes of a block", sure),
    )
