"""The memory of a rank: on a card what the plugin measured, on a CPU a budget.

See docs/internals/vllm.md, Memory on a CPU.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.catalog.cards import CARDS
from gaudi_runtime.catalog.models.config_json import parse_config
from gaudi_runtime.catalog.models.rank_memory import Spread, Stage, stage_memory
from gaudi_runtime.contract.config import Dtype, EngineConfig, KvCacheDtype, RuntimeConfig
from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.vllm.ranks import least, most
from gaudi_runtime.errors import ConfigError, ModelNotFound, PlanImpossible, UnsupportedModel
from gaudi_runtime.memory_split import OWN_BLOCKS, Split, fill_cache, split_memory
from gaudi_runtime.units import plural, size

Answers = Sequence[dict[str, Any]]


def memory_of(config: RuntimeConfig) -> "CardMemory | CpuLedger":
    """The memory of the ranks of this configuration; every answer is that of the rank with the least left, in bytes."""
    return CpuLedger(config) if config.engine.device == "cpu" else CardMemory()


class CardMemory:
    """A Gaudi card, divided by the plugin."""

    def __init__(self) -> None:
        self._split: Split
        self._blocks: DeviceBlocks
        self._margins: list[int] = []
        self._free: list[int] = []

    def before_start(self) -> None:
        """Bytes of the KV cache that vLLM is told: none, for the plugin finds out by its own profile run."""
        return

    def started(self, profile: Answers) -> None:
        """What is free beside weights and KV cache, less the margin, is for graphs."""
        self._margins = [int(each["margin"]) for each in profile]
        # All figures of one rank: least of each would be the split of a card that does not exist.
        fullest = min(profile, key=lambda each: int(each["free"]))
        free, margin, kv_cache = (int(fullest[name]) for name in ("free", "margin", "kv_cache"))
        graphs = max(0, free - margin)
        usable = graphs + kv_cache
        self._split = Split(free=usable + margin, usable=usable, graphs=graphs, kv_cache=kv_cache, margin=margin)
        self._blocks = _blocks(profile)

    def planned(self, memory: Answers) -> None:
        """The card itself knows."""

    def divided(self) -> tuple[Split, DeviceBlocks]:
        """The split, and the KV blocks that every rank has."""
        return self._split, self._blocks

    def now(self, memory: Answers) -> DeviceMemory:
        """The card with the least free."""
        self._free = [int(each["free"]) for each in memory]
        return DeviceMemory(free=least(memory, "free"), total=least(memory, "total"))

    def why_full(self) -> str | None:
        """Why no graph may be captured any more, by what was free when the memory was asked for last."""
        # Decided here for all ranks: one that refused by itself would leave the others waiting for it in a collective.
        for rank, (free, margin) in enumerate(zip(self._free, self._margins, strict=False)):
            if free <= margin:
                return f"{size(free)} of the card of rank {rank} are free and {size(margin)} are kept as margin"
        return None


def figures(config: RuntimeConfig) -> str:
    """Weights and memory as a clause, as far as they are known without the engine; empty where neither is."""
    files = [each.stat().st_size for each in Path(config.model.path).glob("*.safetensors")]
    ranks = config.parallelism.tensor * config.parallelism.pipeline
    weights = [f"the weight files have {size(sum(files))} for {plural(ranks, 'rank')}"] if files else []
    return " and ".join([*weights, *_device(config.engine)])


def _device(engine: EngineConfig) -> Iterator[str]:
    if engine.device_memory_bytes:
        yield f"deviceMemory is {size(engine.device_memory_bytes)}"
    elif (card := CARDS.get(engine.card or "")) and card.memory:
        yield f"a {card.name} has about {size(int(card.memory.value))}"


class CpuLedger:
    """A budget of weights, KV cache and graphs.

    A graph on a CPU is code and keeps no tensor, so it takes 0 bytes of the budget. The compiler's own memory is the
    container's, not the model's.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self._config = config
        self._told: CpuMemory
        self._weights = self._kv_cache = 0
        self._blocks: DeviceBlocks

    def before_start(self) -> int:
        """Bytes of the KV cache that vLLM is told, left by weights and graphs. Raises PlanImpossible."""
        self._told = forecast(self._config)
        return self._told.blocks * self._told.block_bytes

    def weight_bytes(self) -> int:
        """What the weights take by config.json."""
        return self._told.total - self._told.split.free

    def started(self, profile: Answers) -> None:
        """Real sizes take the place of forecast ones."""
        self._weights, self._kv_cache = most(profile, "weights"), most(profile, "kv_cache")
        self._blocks = _blocks(profile)

    def planned(self, memory: Answers) -> None:
        """Nothing is in use that was not known before."""

    def divided(self) -> tuple[Split, DeviceBlocks]:
        """The forecast of what is usable, less the real KV cache: the rest is for graphs."""
        free = self._told.total - self._weights
        usable = min(free, self._told.split.usable)
        graphs = max(0, usable - self._kv_cache)
        split = Split(free=free, usable=usable, graphs=graphs, kv_cache=usable - graphs, margin=free - usable)
        return split, self._blocks

    def now(self, memory: Answers) -> DeviceMemory:
        """The budget less weights and KV cache."""
        used = self._weights + self._kv_cache
        return DeviceMemory(free=max(0, self._told.total - used), total=self._told.total)

    def why_full(self) -> None:
        """None: the budget of captures is all there is."""
        return


def _blocks(profile: Answers) -> DeviceBlocks:
    """All ranks have blocks of the same sizes."""
    one = profile[0]
    size = int(one["block_size"])
    return DeviceBlocks(
        count=least(profile, "kv_blocks"),
        size=size,
        decode_size=int(one.get("decode_block_size", size)),
        bounded=bool(one.get("bounded", True)),
        query_step=int(one.get("query_step", 1)),
    )


_BYTES = {Dtype.BFLOAT16: 2, Dtype.FLOAT16: 2, Dtype.FLOAT32: 4}


@dataclass(frozen=True)
class CpuMemory:
    """What a rank may use before it starts, in bytes: the split beside its weights, the blocks of the KV cache."""

    total: int
    split: Split
    blocks: int
    block_bytes: int


def forecast(config: RuntimeConfig) -> CpuMemory:
    """The split by what config.json says. Raises PlanImpossible for a model that does not fit, before it is loaded."""
    # Before vLLM starts, because a CPU has no memory of its own to run out of: the kernel would kill a worker.
    total = config.engine.device_memory_bytes
    if total is None:
        raise ConfigError("engine.deviceMemoryBytes is missing: on CPU it says how much memory the model may use.")
    rank = _fullest(config)
    if rank.weights >= total:
        raise PlanImpossible(
            f"The weights take {size(rank.weights)} by config.json and engine.deviceMemoryBytes is {size(total)}: "
            "give the pod more memory, or choose a smaller model."
        )
    utilization, share = config.engine.device_memory_utilization, config.warmup.graph_memory_share
    split = split_memory(total - rank.weights, utilization, share)
    split, blocks = fill_cache(split, rank.block, config.limits)
    _refuse_short_cache(config, (blocks - OWN_BLOCKS) * config.limits.block_size)
    return CpuMemory(total, split, blocks, rank.block)


def _refuse_short_cache(config: RuntimeConfig, tokens: int) -> None:
    # vLLM refuses it, too, but in a process that cannot tell us why.
    longest = config.limits.max_model_len
    if tokens < longest:
        raise PlanImpossible(
            f"The KV cache has room for {tokens} tokens and limits.maxModelLen is {longest}: "
            "give the pod more memory, or lower maxModelLen."
        )


def _fullest(config: RuntimeConfig) -> Stage:
    file = Path(config.model.path) / "config.json"
    try:
        shape = parse_config(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelNotFound(f"{file} is missing: the folder holds no complete checkpoint.") from None
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{error}: on a CPU the KV cache is sized by it.") from error
    if config.model.kv_cache_dtype is not KvCacheDtype.AUTO:
        raise ConfigError("model.kvCacheDtype: on a CPU the KV cache has the model's own number format; use auto.")
    number = _BYTES.get(config.model.dtype, shape.dtype_bytes)
    ranks = config.parallelism
    spread = Spread(ranks.tensor, ranks.pipeline, number, number, shape.quantization)
    every = stage_memory(shape, spread, config.limits.block_size)
    return Stage(max(each.weights for each in every), max(each.block for each in every))
