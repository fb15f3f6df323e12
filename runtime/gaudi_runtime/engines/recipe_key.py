"""The part of a recipe's key that the configuration tells (docs/warmup.md, Recipe cache)."""

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey


def recipe_key(config: RuntimeConfig, software: str, card: str, model: str) -> RecipeKey:
    """The key of an engine that knows its software release, its card and a fingerprint of its model."""
    weights, engine = config.model, config.engine
    quantization = weights.quantization.model_dump_json() if weights.quantization else "none"
    return RecipeKey(
        software=f"{software} {engine.execution_mode} {engine.compile_backend} {engine.layers_per_graph}",
        card=card,
        model=model,
        dtype=f"{weights.dtype} {weights.kv_cache_dtype} {quantization}",
        parallelism=config.parallelism.model_dump_json(),
    )
