"""The memory forecast: the division of one card's memory, in bytes (docs/internals/warmup.md, The sum)."""

from gaudi_runtime.catalog.cards import Card
from gaudi_runtime.catalog.figure import Confidence, Figure, lowest_confidence
from gaudi_runtime.catalog.models.rank_memory import StageMemory, rank_workspace_bytes, stage_memory
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


def forecast_memory(inputs: ForecastInputs, shape: ModelShape, card_memory: Figure) -> MemoryForecast:
    """Forecast the memory split of the card with the fewest KV blocks. Raises PlanImpossible for impossible ranks."""
    spread = model_spread(inputs, shape)
    # The profile run processes the largest prompt batch, and then samples a token for every sequence.
    sequences = max(inputs.limits.max_num_seqs, inputs.limits.max_num_prefill_seqs)
    workspace = rank_workspace_bytes(shape, inputs.largest_prompt, sequences, spread.tensor_ranks, spread.dtype_bytes)

    def stage_split(stage: StageMemory) -> DeviceMemorySplit:
        free_memory = max(0, int(card_memory.value) - stage.weight_bytes - workspace)
        return split_memory(free_memory, inputs.utilization, inputs.warmup.graph_memory_share)

    cards = [(stage, stage_split(stage)) for stage in stage_memory(shape, spread, inputs.limits.block_size)]
    # Every card holds a part of every block, so the card with the fewest blocks limits the number of blocks.
    sequence_count = inputs.limits.max_num_seqs
    fullest_stage, split = min(cards, key=lambda card: (_count_blocks(card[0], card[1], sequence_count), card[1].free))
    return _build_forecast(inputs, shape, card_memory, workspace, fullest_stage, split)


def _count_blocks(stage: StageMemory, split: DeviceMemorySplit, sequences: int) -> int:
    """Return the KV blocks of a card, whose KV cache also holds the recurrent states of all sequences."""
    return max(0, split.kv_cache - sequences * stage.state_bytes) // max(1, stage.block_bytes)


def _build_forecast(
    inputs: ForecastInputs,
    shape: ModelShape,
    card_memory: Figure,
    workspace: int,
    stage: StageMemory,
    split: DeviceMemorySplit,
) -> MemoryForecast:
    rank_count = inputs.parallelism.tensor * inputs.parallelism.pipeline
    place = "on the one card" if rank_count == 1 else f"on the fullest of {rank_count} cards"
    shape_source = f"the shape of {shape.name or f'a {shape.family} model'}, {place}"
    weight_source = "the weight files"
    if not shape.file_bytes:
        weight_source = "an estimate by config.json, without an image tower"
    elif not shape.is_listed:
        weight_source = "an estimate by the number of parameters"
    weights = Figure(stage.weight_bytes, f"{weight_source}; {shape_source}", Confidence.CALCULATED)
    workspace_figure = Figure(workspace, WORKSPACE_SOURCE, Confidence.CALCULATED)
    confidence = lowest_confidence(card_memory, weights, workspace_figure)
    return MemoryForecast(
        total=card_memory,
        weights=weights,
        workspace=workspace_figure,
        free=Figure(split.free, "total less weights and workspace", confidence),
        usable=Figure(split.usable, f"free * deviceMemoryUtilization {inputs.utilization:g}", confidence),
        graphs=Figure(split.graphs, f"usable * graphMemoryShare {inputs.warmup.graph_memory_share:g}", confidence),
        kv_cache=Figure(split.kv_cache, "usable less graphs", confidence),
        block=Figure(stage.block_bytes, shape_source, Confidence.CALCULATED),
        kv_blocks=Figure(
            _count_blocks(stage, split, inputs.limits.max_num_seqs),
            "KV cache less recurrent states of all sequences, divided by the bytes of a block",
            confidence,
        ),
    )
