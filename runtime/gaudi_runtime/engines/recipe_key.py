"""The part of a recipe's key that the configuration tells (docs/warmup.md, Recipe cache)."""

from gaudi_runtime.contract.config import ModelConfig, RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey


def recipe_key(config: RuntimeConfig, software: str, card: str, model: str) -> RecipeKey:
    """The key of an engine that knows its software release, its card and a fingerprint of its model."""
    weights, engine = config.model, config.engine
    quantization = weights.quantization.model_dump_json() if weights.quantization else "none"
    return RecipeKey(
        software=f"{software} {engine.execution_mode} {engine.compile_backend} {engine.layers_per_graph}",
        card=card,
        model=f"{model}{_adapters(weights)}",
        dtype=f"{weights.dtype} {weights.kv_cache_dtype} {quantization}",
        parallelism=config.parallelism.model_dump_json(),
    )


def _adapters(model: ModelConfig) -> str:
    """Graphs hold the matrices of adapters, padded to one rank and number; which adapters they are does not count."""
    if not model.adapters:
        return ""
    return f" with {model.max_adapters_per_batch or len(model.adapters)} adapters of rank {model.max_adapter_rank}"
