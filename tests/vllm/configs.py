"""RuntimeConfigs of the vllm engine on a CPU, for a tiny real Llama."""

from pathlib import Path
from typing import Any

from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.contract.config import (
    AdapterConfig,
    Dtype,
    EngineConfig,
    EngineName,
    ExecutionMode,
    ModelConfig,
    RuntimeConfig,
    ServingConfig,
    WarmupConfig,
)
from tests.unit.runtime.configs import free_port

MIB = 1024**2
MODEL = "tiny"
ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
"""With this setting the worker runs in the process of vLLM's core, which saves the start of an interpreter."""


def vllm_config(
    checkpoint: Path,
    folder: Path,
    mode: ExecutionMode = ExecutionMode.EAGER,
    *,
    batch_sizes: BucketingRangeSettings | None = None,
    settings: dict[str, str] | None = None,
    device_memory: int = 1024 * MIB,
    adapters: tuple[AdapterConfig, ...] = (),
    **limits: Any,
) -> RuntimeConfig:
    """Return a configuration for prompts of 64 and 128 tokens, and for decode batches of `batch_sizes`."""
    return RuntimeConfig(
        model=ModelConfig(path=str(checkpoint), served_names=(MODEL,), dtype=Dtype.FLOAT32, adapters=adapters),
        engine=EngineConfig(
            name=EngineName.VLLM,
            execution_mode=mode,
            device="cpu",
            device_memory_bytes=device_memory,
            settings=ONE_PROCESS | (settings or {}),
        ),
        limits=Limits(
            **{"max_model_len": 1024, "max_num_seqs": 2, "max_num_batched_tokens": 128, "block_size": 32} | limits,
            steps_by_tokens=True,
            gapless=True,
        ),
        bucketing=BucketPolicy(
            strategy=Strategy.LINEAR,
            prompt=PromptRanges(batch_size=_range(1, 1, 1), query=_range(64, 64, 128)),
            decode=DecodeRanges(batch_size=batch_sizes or _range(1, 1, 2), blocks=_range(16, 16, 32)),
        ),
        warmup=WarmupConfig(),
        serving=ServingConfig(model_port=free_port(), status_port=free_port(), drain_seconds=30),
        recipe_cache_dir=str(folder / "recipes"),
    )


def _range(least: int, step: int, most: int) -> BucketingRangeSettings:
    return BucketingRangeSettings(min=least, step=step, max=most)
