"""The memory of a rank: on a card as the plugin measured it, on a CPU as a budget.

See docs/internals/vllm.md, Memory on a CPU.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.catalog.cards import CARDS
from gaudi_runtime.catalog.models.config_json import read_checkpoint, weight_file_bytes
from gaudi_runtime.catalog.models.rank_memory import RankSpread, StageMemory, stage_memory
from gaudi_runtime.contract.config import Dtype, EngineConfig, KvCacheDtype, RuntimeConfig
from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.vllm.ranks import largest_value, smallest_value
from gaudi_runtime.errors import ConfigError, ModelNotFound, PlanImpossible, UnsupportedModel
from gaudi_runtime.memory_split import OWN_BLOCKS, DeviceMemorySplit, limit_kv_cache, split_memory
from gaudi_runtime.units import format_bytes, plural

Answers = Sequence[dict[str, Any]]


def create_rank_memory(config: RuntimeConfig) -> "CardMemory | CpuBudget":
    """Return the memory of vLLM's ranks. Its values are those of the rank with the least free memory, in bytes."""
    return CpuBudget(config) if config.engine.device == "cpu" else CardMemory()


class CardMemory:
    """The memory of vLLM's ranks on Gaudi cards. The plugin measures and divides this memory."""

    def __init__(self) -> None:
        self._split: DeviceMemorySplit
        self._blocks: DeviceBlocks
        self._margins: list[int] = []
        self._free_bytes: list[int] = []

    def choose_kv_cache_size(self) -> None:
        """Return None instead of a KV cache size, because the plugin calculates the size in its own profile run."""
        return

    def store_profile(self, profiles: Answers) -> None:
        """Store the memory split. Graphs get the memory that is free after weights and KV cache, minus the margin."""
        self._margins = [int(answer["margin"]) for answer in profiles]
        # Take all values from the rank with the least free memory. Separate minimums of each value would describe a
        # card that does not exist.
        fullest = min(profiles, key=lambda answer: int(answer["free"]))
        free, margin, kv_cache = (int(fullest[name]) for name in ("free", "margin", "kv_cache"))
        graphs = max(0, free - margin)
        usable = graphs + kv_cache
        self._split = DeviceMemorySplit(
            free=usable + margin, usable=usable, graphs=graphs, kv_cache=kv_cache, margin=margin
        )
        self._blocks = _common_kv_blocks(profiles)

    def update_after_plan(self, answers: Answers) -> None:
        """Do nothing, because the memory of a card is measured."""

    def split_and_blocks(self) -> tuple[DeviceMemorySplit, DeviceBlocks]:
        """Return the memory split, and the number of KV blocks that every rank has."""
        return self._split, self._blocks

    def current_memory(self, answers: Answers) -> DeviceMemory:
        """Return the memory of the card with the least free memory."""
        self._free_bytes = [int(answer["free"]) for answer in answers]
        return DeviceMemory(free=smallest_value(answers, "free"), total=smallest_value(answers, "total"))

    def why_full(self) -> str | None:
        """Return why no more graphs may be captured, by the last measured free memory; None if captures are allowed."""
        # Decide for all ranks in one place. If a single rank refused a capture, the other ranks would wait for that
        # rank in a collective.
        for rank, (free, margin) in enumerate(zip(self._free_bytes, self._margins, strict=False)):
            if free <= margin:
                return (
                    f"The card of rank {rank} has {format_bytes(free)} free, but {format_bytes(margin)} must stay free "
                    "as a margin"
                )
        return None


def describe_memory(config: RuntimeConfig) -> str:
    """Return the memory of vLLM's ranks and the size of the weight files as a clause; empty if both are unknown."""
    size = weight_file_bytes(Path(config.model.path))
    ranks = config.parallelism.tensor * config.parallelism.pipeline
    clauses = [f"the weight files have {format_bytes(size)} for {plural(ranks, 'rank')}"] if size else []
    return " and ".join([*clauses, *_describe_device(config.engine)])


def _describe_device(engine: EngineConfig) -> Iterator[str]:
    if engine.device_memory_bytes:
        yield f"deviceMemory is {format_bytes(engine.device_memory_bytes)}"
    elif (card := CARDS.get(engine.card or "")) and card.memory:
        yield f"a {card.name} card has about {format_bytes(int(card.memory.value))}"


class CpuBudget:
    """The memory of vLLM's ranks on a CPU: a budget for weights, KV cache and graphs.

    A graph on a CPU is code without tensors, so it takes 0 bytes of the budget. The memory of the compiler belongs to
    the container's memory, not to the model's budget.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self._config = config
        self._forecast: CpuMemoryForecast
        self._weights = self._kv_cache = 0
        self._blocks: DeviceBlocks

    def choose_kv_cache_size(self) -> int:
        """Return the bytes for vLLM's KV cache: the budget minus weights and graphs. Raises PlanImpossible."""
        self._forecast = forecast_cpu_memory(self._config)
        return self._forecast.blocks * self._forecast.block_bytes

    def weight_bytes(self) -> int:
        """Return the bytes of the weights, by the weight files."""
        return self._forecast.total_bytes - self._forecast.split.free

    def store_profile(self, profiles: Answers) -> None:
        """Replace the forecast sizes by the real sizes."""
        self._weights, self._kv_cache = largest_value(profiles, "weights"), largest_value(profiles, "kv_cache")
        self._blocks = _common_kv_blocks(profiles)

    def update_after_plan(self, answers: Answers) -> None:
        """Do nothing, because the budget already contains all memory that a plan needs."""

    def split_and_blocks(self) -> tuple[DeviceMemorySplit, DeviceBlocks]:
        """Return the memory split and the KV blocks. Graphs get the usable memory minus the real KV cache."""
        free = self._forecast.total_bytes - self._weights
        usable = min(free, self._forecast.split.usable)
        graphs = max(0, usable - self._kv_cache)
        split = DeviceMemorySplit(
            free=free, usable=usable, graphs=graphs, kv_cache=usable - graphs, margin=free - usable
        )
        return split, self._blocks

    def current_memory(self, answers: Answers) -> DeviceMemory:
        """Return the budget minus weights and KV cache."""
        used_bytes = self._weights + self._kv_cache
        return DeviceMemory(free=max(0, self._forecast.total_bytes - used_bytes), total=self._forecast.total_bytes)

    def why_full(self) -> None:
        """Return None, because captures on a CPU take no bytes of the budget."""
        return


def _common_kv_blocks(profiles: Answers) -> DeviceBlocks:
    """Return the number of KV blocks that every rank has. The block sizes are equal on all ranks."""
    answer = profiles[0]
    size = int(answer["block_size"])
    return DeviceBlocks(
        count=smallest_value(profiles, "kv_blocks"),
        size=size,
        decode_size=int(answer.get("decode_block_size", size)),
        bounded=bool(answer.get("bounded", True)),
        query_step=int(answer.get("query_step", 1)),
    )


_BYTES = {Dtype.BFLOAT16: 2, Dtype.FLOAT16: 2, Dtype.FLOAT32: 4}


@dataclass(frozen=True)
class CpuMemoryForecast:
    """The forecast memory of a vLLM rank on a CPU: total and split in bytes, and the number of KV blocks."""

    total_bytes: int
    split: DeviceMemorySplit
    blocks: int
    block_bytes: int


def forecast_cpu_memory(config: RuntimeConfig) -> CpuMemoryForecast:
    """Return the memory of a vLLM rank on a CPU, calculated from config.json.

    Raises ConfigError without a memory budget, and PlanImpossible for a model that does not fit.
    """
    # Check before vLLM starts. A CPU has no limited device memory, so the kernel would kill a worker instead of failing
    # an allocation.
    total = config.engine.device_memory_bytes
    if total is None:
        raise ConfigError("engine.deviceMemoryBytes is missing. Set the memory that the model may use on the CPU.")
    rank = _largest_stage(config)
    if rank.weight_bytes >= total:
        raise PlanImpossible(
            f"The weights take {format_bytes(rank.weight_bytes)}, but "
            f"engine.deviceMemoryBytes is {format_bytes(total)}. Give the pod more memory, or choose a smaller model."
        )
    utilization, share = config.engine.device_memory_utilization, config.warmup.graph_memory_share
    split = split_memory(total - rank.weight_bytes, utilization, share)
    split, blocks = limit_kv_cache(split, rank.block_bytes, config.limits)
    _refuse_short_cache(config, (blocks - OWN_BLOCKS) * config.limits.block_size)
    return CpuMemoryForecast(total, split, blocks, rank.block_bytes)


def _refuse_short_cache(config: RuntimeConfig, cache_tokens: int) -> None:
    # vLLM checks this too, but in a process that cannot report the reason to the runtime.
    max_model_len = config.limits.max_model_len
    if cache_tokens < max_model_len:
        raise PlanImpossible(
            f"The KV cache has room for {cache_tokens} tokens, but limits.maxModelLen is {max_model_len}. "
            "Give the pod more memory, or lower maxModelLen."
        )


def _largest_stage(config: RuntimeConfig) -> StageMemory:
    folder = Path(config.model.path)
    try:
        shape = read_checkpoint(folder)
    except FileNotFoundError:
        raise ModelNotFound(f"{folder / 'config.json'} is missing, so the checkpoint is not complete.") from None
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{error}. On a CPU, the runtime sizes the KV cache by config.json.") from error
    if config.model.kv_cache_dtype is not KvCacheDtype.AUTO:
        raise ConfigError(
            f"model.kvCacheDtype is {config.model.kv_cache_dtype}, but a CPU supports only auto, because the KV cache "
            "uses the number format of the model. Set model.kvCacheDtype to auto."
        )
    dtype_bytes = _BYTES.get(config.model.dtype, shape.dtype_bytes)
    parallelism = config.parallelism
    spread = RankSpread(parallelism.tensor, parallelism.pipeline, dtype_bytes, dtype_bytes)
    stages = stage_memory(shape, spread, config.limits.block_size)
    return StageMemory(max(stage.weight_bytes for stage in stages), max(stage.block_bytes for stage in stages))
