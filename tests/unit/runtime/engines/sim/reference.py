"""Settings of logs 000 and 002 for the sim engine: Llama 3.1 8B on one simulated Gaudi 2."""

from gaudi_runtime.contract.config import (
    CaptureOrder,
    EngineConfig,
    EngineName,
    ExecutionMode,
    ModelConfig,
    RuntimeConfig,
    WarmupConfig,
)
from tests.support.reference_logs import TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS

LOGGED_ORDERS = {"prompt_order": CaptureOrder.MIN_TOKENS, "decode_order": CaptureOrder.MAX_BS}


def reference_config(time_scale: float = 1.0, **warmup: float) -> RuntimeConfig:
    """Return the settings of the logs. Blocks have one token, because the logs count decode lengths in tokens."""
    return RuntimeConfig(
        model=ModelConfig(path="/models", served_names=("llama",)),
        engine=EngineConfig(
            name=EngineName.SIM,
            execution_mode=ExecutionMode.HPU_GRAPHS,
            device_memory_utilization=0.5,
            sim_script={"card": "gaudi2", "model": "meta-llama/Llama-3.1-8B", "timeScale": time_scale},
        ),
        limits=TWO_DIMENSIONAL_LIMITS,
        bucketing=TWO_DIMENSIONAL,
        warmup=WarmupConfig.model_validate({"graph_memory_share": 0.4, "prompt_ratio": 0.5, **LOGGED_ORDERS, **warmup}),
    )
