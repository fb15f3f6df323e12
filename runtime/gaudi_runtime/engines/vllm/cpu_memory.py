"""The memory of one rank on a CPU, which has none of its own to run out of (docs/vllm.md, Memory on a CPU)."""

from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.contract.config import Dtype, KvCacheDtype, RuntimeConfig
from gaudi_runtime.errors import ConfigError, ModelNotFound, PlanImpossible, UnsupportedModel
from gaudi_runtime.memory import Split, kv_blocks, split_memory
from gaudi_runtime.models.config_json import parse_config
from gaudi_runtime.models.ranks import Spread, Stage, stages
from gaudi_runtime.units import size

VLLMS_OWN = 1
"""Blocks that vLLM keeps from all sequences."""
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
    blocks = kv_blocks(split.kv_cache, rank.block)
    _refuse_short_cache(config, (blocks - VLLMS_OWN) * config.limits.block_size)
    return CpuMemory(total, split, blocks, rank.block)


def _refuse_short_cache(config: RuntimeConfig, tokens: int) -> None:
    """vLLM refuses it, too, but in a process that cannot tell us why."""
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
    every = stages(shape, spread, config.limits.block_size)
    return Stage(max(each.weights for each in every), max(each.block for each in every))
