"""The settings in the logs of seeds 000 and 002, for the sim engine: Llama 3.1 8B on one described Gaudi 2."""

from gaudi_runtime.contract.bucketing import BucketPolicy, DecodeRanges, Limits, PromptRanges, RangeSettings, Strategy
from gaudi_runtime.contract.config import (
    EngineConfig,
    EngineName,
    ExecutionMode,
    ModelConfig,
    RuntimeConfig,
    WarmupConfig,
)


def seed_config(time_scale: float = 1.0, **warmup: float) -> RuntimeConfig:
    """The settings in the logs; blocks of one token, because that release counts decode lengths in tokens."""
    return RuntimeConfig(
        model=ModelConfig(path="/models", served_names=("llama",)),
        engine=EngineConfig(
            name=EngineName.SIM,
            execution_mode=ExecutionMode.HPU_GRAPHS,
            device_memory_utilization=0.5,
            sim_script={"card": "gaudi2", "model": "meta-llama/Llama-3.1-8B", "timeScale": time_scale},
        ),
        limits=Limits(
            max_model_len=2048,
            max_num_seqs=4,
            max_num_prefill_seqs=4,
            max_num_batched_tokens=4096,
            block_size=1,
            contiguous_paged_attention=False,
        ),
        bucketing=BucketPolicy(
            strategy=Strategy.LINEAR,
            prompt=PromptRanges(
                batch_size=RangeSettings(min=1, step=32, max=4), query=RangeSettings(min=128, step=128, max=1024)
            ),
            decode=DecodeRanges(
                batch_size=RangeSettings(min=1, step=128, max=4), blocks=RangeSettings(min=128, step=128, max=2048)
            ),
        ),
        warmup=WarmupConfig(graph_memory_share=0.4, **{"prompt_ratio": 0.5, **warmup}),
    )
