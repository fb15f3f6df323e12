"""ForecastInputs: everything about a deployment that a forecast depends on, except model and card."""

from dataclasses import dataclass

from gaudi_runtime.catalog.models.config_json import DTYPE_BYTES
from gaudi_runtime.catalog.models.quantization import effective
from gaudi_runtime.catalog.models.rank_memory import Spread
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.config import (
    Dtype,
    EngineConfig,
    EngineName,
    ExecutionMode,
    KvCacheDtype,
    ParallelismConfig,
    QuantizationMethod,
    RuntimeConfig,
    WarmupConfig,
)

ONE_CARD = ParallelismConfig()
DEFAULT_WARMUP = WarmupConfig()


@dataclass(frozen=True)
class ForecastInputs:
    """A deployment as far as memory and warm-up depend on it.

    `quantization` None takes the checkpoint's; `device_memory` (bytes) replaces the card's own; `kv_blocks` replaces
    what the memory split would give, as when a device has been measured. `tokens_follow_length` says that
    maxNumBatchedTokens was left out, so that it is the model length.
    """

    policy: BucketPolicy
    limits: Limits
    warmup: WarmupConfig = DEFAULT_WARMUP
    execution_mode: ExecutionMode = ExecutionMode.HPU_GRAPHS
    utilization: float = 0.9
    parallelism: ParallelismConfig = ONE_CARD
    dtype: Dtype = Dtype.AUTO
    kv_cache_dtype: KvCacheDtype = KvCacheDtype.AUTO
    quantization: QuantizationMethod | None = None
    device_memory: int | None = None
    kv_blocks: int | None = None
    tokens_follow_length: bool = False

    @property
    def captures(self) -> bool:
        """Whether graphs are captured at all (docs/internals/warmup.md, Order of start-up)."""
        modes = (ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE)
        return self.warmup.enabled and self.execution_mode in modes

    @property
    def graphs_unmeasured(self) -> bool:
        """Whether graphs are captured whose bytes no public log shows: all figures that exist are of HPU graphs."""
        return self.captures and self.execution_mode is ExecutionMode.TORCH_COMPILE

    @property
    def useful_blocks(self) -> int:
        """KV blocks of `maxNumSeqs` sequences of full length: as many as the limits can ever use."""
        return self.blocks_per_sequence * self.limits.max_num_seqs

    @property
    def blocks_per_sequence(self) -> int:
        """KV blocks of one sequence of full length."""
        return -(-self.limits.max_model_len // self.limits.block_size)

    @property
    def largest_prompt(self) -> int:
        """Most tokens in one prompt batch: what the profile run meets."""
        limits = self.limits
        return min(limits.max_num_batched_tokens, limits.max_num_prefill_seqs * limits.longest_query)


def inputs_of(config: RuntimeConfig) -> ForecastInputs:
    """The inputs in a RuntimeConfig."""
    return ForecastInputs(
        policy=config.bucketing,
        limits=config.limits,
        warmup=config.warmup,
        execution_mode=_mode(config.engine),
        utilization=config.engine.device_memory_utilization,
        parallelism=config.parallelism,
        dtype=config.model.dtype,
        kv_cache_dtype=config.model.kv_cache_dtype,
        quantization=config.model.quantization.method if config.model.quantization else None,
        device_memory=config.engine.device_memory_bytes,
    )


def _mode(engine: EngineConfig) -> ExecutionMode:
    # A simulation does what the description of its card says, which was measured with HPU graphs.
    simulated = engine.name is EngineName.SIM and engine.execution_mode is ExecutionMode.TORCH_COMPILE
    return ExecutionMode.HPU_GRAPHS if simulated else engine.execution_mode


def spread_of(inputs: ForecastInputs, shape: ModelShape) -> Spread:
    """How this deployment spreads and stores this model."""
    ranks, dtype_bytes = inputs.parallelism, DTYPE_BYTES.get(inputs.dtype, shape.dtype_bytes)
    return Spread(
        tensor=ranks.tensor,
        pipeline=ranks.pipeline,
        dtype_bytes=dtype_bytes,
        kv_dtype_bytes=dtype_bytes if inputs.kv_cache_dtype is KvCacheDtype.AUTO else 1,
        quantization=effective(shape.quantization, inputs.quantization),
        expert_ranks=ranks.tensor * ranks.data if ranks.experts else None,
    )
