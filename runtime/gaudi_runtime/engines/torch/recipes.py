"""What compiled code of the torch engine on disk depends on (docs/warmup.md, Recipe cache)."""

import hashlib
import os
import platform
from importlib import import_module
from importlib.metadata import version

import torch

from gaudi_runtime.contract.config import CompileBackend, RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.engines.recipe_key import recipe_key
from gaudi_runtime.engines.torch.checkpoint import Checkpoint

HPU_CACHE = "PT_HPU_RECIPE_CACHE_CONFIG"


def kept_recipe_key(config: RuntimeConfig, checkpoint: Checkpoint) -> RecipeKey | None:
    """The key, None where nothing compiled outlives the process: only Inductor and the Gaudi bridge keep files."""
    engine = config.engine
    kept = HPU_CACHE in os.environ if engine.device == "hpu" else engine.compile_backend is CompileBackend.INDUCTOR
    if not kept:
        return None
    release, card = _gaudi() if engine.device == "hpu" else ("", platform.machine())
    model = hashlib.sha256(checkpoint.config.to_json_string().encode()).hexdigest()
    return recipe_key(config, f"torch {torch.__version__} {release}", f"{engine.device} {card}", model)


def _gaudi() -> tuple[str, str]:
    """Release of Intel's bridge and name of the card."""
    hpu = import_module("habana_frameworks.torch.hpu")
    return version("habana-torch-plugin"), str(hpu.get_device_name())
