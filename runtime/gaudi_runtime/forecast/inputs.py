"""ForecastInputs: everything about a deployment that a forecast depends on, except model and card."""

from dataclasses import dataclass

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.config import Dtype, ExecutionMode, RuntimeConfig, WarmupConfig
from gaudi_runtime.models.quantization import Method

DEFAULT_WARMUP = WarmupConfig()


@dataclass(frozen=True)
class ForecastInputs:
    """A deployment as far as memory and warm-up depend on it.

    `device_memory` (bytes) replaces the card's own; `quantization` None takes the checkpoint's; `fp8_kv_cache`
    halves the KV cache; `kv_blocks` replaces what the memory split would give.
    """

    policy: BucketPolicy
    limits: Limits
    warmup: WarmupConfig = DEFAULT_WARMUP
    execution_mode: ExecutionMode = ExecutionMode.HPU_GRAPHS
    utilization: float = 0.9
    tensor: int = 1
    pipeline: int = 1
    dtype: Dtype = Dtype.AUTO
    quantization: Method | None = None
    fp8_kv_cache: bool = False
    device_memory: int | None = None
    kv_blocks: int | None = None

    @property
    def captures(self) -> bool:
        """Whether graphs are captured at all (docs/warmup.md, Order of start-up)."""
        modes = (ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE)
        return self.warmup.enabled and self.execution_mode in modes


def inputs_of(config: RuntimeConfig) -> ForecastInputs:
    """The inputs in a RuntimeConfig, for one card."""
    return ForecastInputs(
        policy=config.bucketing,
        limits=config.limits,
        warmup=config.warmup,
        execution_mode=config.engine.execution_mode,
        utilization=config.engine.device_memory_utilization,
        dtype=config.model.dtype,
        device_memory=config.engine.device_memory_bytes,
    )
