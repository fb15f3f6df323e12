"""The key of compiled recipes, defined once for all engines (docs/how-to/recipe-cache.md)."""

import hashlib
import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gaudi_runtime.contract.config import ModelConfig, RuntimeConfig
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.engines.host_cpu import describe_host_cpu

HPU_CACHE = "PT_HPU_RECIPE_CACHE_CONFIG"
BRIDGE = "habana-torch-plugin"
LAYERS_PER_GRAPH = "VLLM_CONFIG_HIDDEN_LAYERS"
RUNTIME_SCALES = "RUNTIME_SCALE_PATCHING"
CHANNELWISE = "VLLM_HPU_FORCE_CHANNEL_FP8"
TOKENWISE_KV_CACHE = "VLLM_DYNAMIC_KV_QUANT"


def recipe_key(config: RuntimeConfig, software: str, card: str, model: str) -> RecipeKey:
    """Return the recipe key of an engine. `software` is its release, and `model` is a fingerprint of the checkpoint."""
    # The layout of the KV cache is part of the key, because buckets are measured in KV blocks. The bucket plan is not
    # part of the key.
    model_config, engine, limits = config.model, config.engine, config.limits
    layout = f"blocks of {limits.block_size}{' contiguous' if limits.contiguous_paged_attention else ''}"
    return RecipeKey(
        software=f"{software} {engine.execution_mode} {engine.settings.get(LAYERS_PER_GRAPH)}",
        card=card,
        model=f"{model}{_describe_adapters(model_config)}",
        dtype=f"{model_config.dtype} {model_config.kv_cache_dtype} {_describe_quantization(config)} {layout}",
        parallelism=config.parallelism.model_dump_json(),
    )


def disk_recipe_key(config: RuntimeConfig, software: str, *, keeps_files: bool) -> RecipeKey | None:
    """Return the recipe key of an engine with a real checkpoint; None if it keeps no compiled code on disk.

    `keeps_files` says whether an engine on a CPU keeps compiled code in files. On Gaudi, the bridge keeps recipes if
    the variable HPU_CACHE names a folder. A checkpoint without config.json has no key; the engine reports why it cannot
    load the checkpoint.
    """
    device = config.engine.device
    model = _checkpoint_fingerprint(config.model)
    if model is None or not (HPU_CACHE in os.environ if device == "hpu" else keeps_files):
        return None
    if device == "hpu":
        return recipe_key(
            config, f"{software} {_describe_release(BRIDGE)}", f"hpu {config.engine.card or 'of any kind'}", model
        )
    return recipe_key(config, software, f"{device} {describe_host_cpu()}", model)


def _checkpoint_fingerprint(model: ModelConfig) -> str | None:
    """Return the SHA-256 of config.json, with repository and commit for a hub model; None if the file is missing."""
    folder = Path(model.path)
    try:
        config_digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    except OSError:
        return None
    # The folder name of a fetched model is its commit (docs/how-to/model-sources.md). A mounted folder has no known
    # revision.
    return f"{config_digest} {model.hub.repo}@{folder.name}" if model.hub else config_digest


def _describe_release(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} of unknown release"


def _describe_quantization(config: RuntimeConfig) -> str:
    quantization, settings = config.model.quantization, config.engine.settings
    scale_names = (RUNTIME_SCALES, CHANNELWISE, TOKENWISE_KV_CACHE)
    scale_settings = {name: settings[name] for name in scale_names if name in settings}
    fields = {**(quantization.model_dump(mode="json") if quantization else {}), **scale_settings}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) if fields else "none"


def _describe_adapters(model: ModelConfig) -> str:
    # A graph contains the adapter matrices, padded to the maximum rank and the maximum number of adapters. Other
    # adapters with the same limits therefore use the same graphs.
    if not model.adapters:
        return ""
    return f" with {model.max_adapters_per_batch or len(model.adapters)} adapters of rank {model.max_adapter_rank}"
