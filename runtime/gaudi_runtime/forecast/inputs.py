"""ForecastInputs: the properties of a deployment that a forecast depends on, except the model and the card."""

from dataclasses import dataclass

from gaudi_runtime.catalog.models.config_json import DTYPE_BYTES
from gaudi_runtime.catalog.models.rank_memory import RankSpread
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
EXTENSIONS = frozenset({"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "--hf-overrides"})
"""The settings that may allow a longer sequence than config.json states."""


@dataclass(frozen=True)
class ForecastInputs:
    """The properties of a deployment that memory and warm-up depend on.

    If `quantization` is None, the checkpoint determines the quantization. `device_memory` (bytes) replaces the memory
    of the card. `kv_blocks` replaces the result of the memory split, for example after a measurement.
    `extends_length` is True if a setting allows a longer sequence than the model states.
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
    extends_length: bool = False

    @property
    def captures(self) -> bool:
        """Whether graphs are captured."""
        modes = (ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE)
        return self.warmup.enabled and self.execution_mode in modes

    @property
    def has_unmeasured_graphs(self) -> bool:
        """Whether the bytes of captured graphs are unknown, because public logs show only HPU graphs."""
        return self.captures and self.execution_mode is ExecutionMode.TORCH_COMPILE

    @property
    def useful_blocks(self) -> int:
        """The KV blocks of `maxNumSeqs` sequences of full length. The limits allow no more blocks."""
        return self.blocks_per_sequence * self.limits.max_num_seqs

    @property
    def blocks_per_sequence(self) -> int:
        """The KV blocks of one sequence of full length."""
        return -(-self.limits.max_model_len // self.limits.block_size)

    @property
    def largest_prompt(self) -> int:
        """The most tokens in one prompt batch. The profile run uses this batch."""
        limits = self.limits
        return min(limits.max_num_batched_tokens, limits.max_num_prefill_seqs * limits.longest_query)


def inputs_from_config(config: RuntimeConfig) -> ForecastInputs:
    """Return the forecast inputs of a RuntimeConfig."""
    return ForecastInputs(
        policy=config.bucketing,
        limits=config.limits,
        warmup=config.warmup,
        execution_mode=_effective_mode(config.engine),
        utilization=config.engine.device_memory_utilization,
        parallelism=config.parallelism,
        dtype=config.model.dtype,
        kv_cache_dtype=config.model.kv_cache_dtype,
        quantization=config.model.quantization.method if config.model.quantization else None,
        device_memory=config.engine.device_memory_bytes,
        extends_length=not EXTENSIONS.isdisjoint(config.engine.settings),
    )


def _effective_mode(engine: EngineConfig) -> ExecutionMode:
    # A simulated engine uses the rates of its card, which were measured with HPU graphs.
    simulates_compile = engine.name is EngineName.SIM and engine.execution_mode is ExecutionMode.TORCH_COMPILE
    return ExecutionMode.HPU_GRAPHS if simulates_compile else engine.execution_mode


def model_spread(inputs: ForecastInputs, shape: ModelShape) -> RankSpread:
    """Return the distribution of the model over ranks in this deployment, and the number formats."""
    parallelism, dtype_bytes = inputs.parallelism, DTYPE_BYTES.get(inputs.dtype, shape.dtype_bytes)
    return RankSpread(
        tensor_ranks=parallelism.tensor,
        pipeline_stages=parallelism.pipeline,
        dtype_bytes=dtype_bytes,
        kv_dtype_bytes=dtype_bytes if inputs.kv_cache_dtype is KvCacheDtype.AUTO else 1,
        quantization=inputs.quantization,
        expert_ranks=parallelism.tensor * parallelism.data if parallelism.experts else None,
    )
