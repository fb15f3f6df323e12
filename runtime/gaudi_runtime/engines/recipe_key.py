"""The key of compiled recipes (docs/how-to/recipe-cache.md): one definition for all engines."""

import hashlib
import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gaudi_runtime.contract.config import ModelConfig, RuntimeConfig
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.engines.host_cpu import host_cpu

HPU_CACHE = "PT_HPU_RECIPE_CACHE_CONFIG"
BRIDGE = "habana-torch-plugin"
LAYERS_PER_GRAPH = "VLLM_CONFIG_HIDDEN_LAYERS"
RUNTIME_SCALES = "RUNTIME_SCALE_PATCHING"
CHANNELWISE = "VLLM_HPU_FORCE_CHANNEL_FP8"


def recipe_key(config: RuntimeConfig, software: str, card: str, model: str) -> RecipeKey:
    """Return the key of an engine with this software release, this card and this fingerprint of its model."""
    # The layout of the KV cache is part of the key, because every bucket counts in its blocks. The plan is not.
    weights, engine, limits = config.model, config.engine, config.limits
    layout = f"blocks of {limits.block_size}{' contiguous' if limits.contiguous_paged_attention else ''}"
    return RecipeKey(
        software=f"{software} {engine.execution_mode} {engine.compile_backend} {engine.settings.get(LAYERS_PER_GRAPH)}",
        card=card,
        model=f"{model}{_adapters(weights)}",
        dtype=f"{weights.dtype} {weights.kv_cache_dtype} {_quantization(config)} {layout}",
        parallelism=config.parallelism.model_dump_json(),
    )


def kept_recipe_key(config: RuntimeConfig, software: str, *, keeps_files: bool) -> RecipeKey | None:
    """Return the key of an engine with a real checkpoint; None if no compiled code outlives its process.

    `keeps_files` says whether a CPU engine keeps compiled code. On Gaudi, the bridge keeps recipes if its variable
    names a folder. A checkpoint without config.json has no key; the engine reports why it cannot load the checkpoint.
    """
    device = config.engine.device
    model = checkpoint_fingerprint(config.model)
    if model is None or not (HPU_CACHE in os.environ if device == "hpu" else keeps_files):
        return None
    if device == "hpu":
        return recipe_key(config, f"{software} {_release(BRIDGE)}", f"hpu {config.engine.card or 'of any kind'}", model)
    return recipe_key(config, software, f"{device} {host_cpu()}", model)


def checkpoint_fingerprint(model: ModelConfig) -> str | None:
    """Return the SHA-256 of config.json, with repository and commit of a hub model; None without config.json."""
    folder = Path(model.path)
    try:
        architecture = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    except OSError:
        return None
    # The folder of a fetched model is named by its commit (docs/how-to/model-sources.md). The revision of a mounted
    # folder is not known.
    return f"{architecture} {model.hub.repo}@{folder.name}" if model.hub else architecture


def _release(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} of unknown release"


def _quantization(config: RuntimeConfig) -> str:
    asked, settings = config.model.quantization, config.engine.settings
    scales = {name: settings[name] for name in (RUNTIME_SCALES, CHANNELWISE) if name in settings}
    parts = {**(asked.model_dump(mode="json") if asked else {}), **scales}
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")) if parts else "none"


def _adapters(model: ModelConfig) -> str:
    # Graphs contain the matrices of adapters, padded to one rank and number. The adapters themselves do not matter.
    if not model.adapters:
        return ""
    return f" with {model.max_adapters_per_batch or len(model.adapters)} adapters of rank {model.max_adapter_rank}"
