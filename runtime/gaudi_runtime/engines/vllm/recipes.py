"""What compiled code of vLLM on disk depends on (docs/warmup.md, Recipe cache)."""

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.engines.recipe_key import recipe_key
from gaudi_runtime.engines.vllm.versions import installed_release

HPU_CACHE = "PT_HPU_RECIPE_CACHE_CONFIG"


def kept_recipe_key(config: RuntimeConfig) -> RecipeKey | None:
    """The key, None where nothing compiled outlives the process: only Inductor and the Gaudi bridge keep files."""
    device = config.engine.device
    kept = HPU_CACHE in os.environ if device == "hpu" else config.engine.execution_mode is ExecutionMode.TORCH_COMPILE
    if not kept:
        return None
    bridge = f" habana {version('habana-torch-plugin')}" if device == "hpu" else ""
    software = f"vllm {installed_release()} torch {version('torch')}{bridge}"
    model = hashlib.sha256((Path(config.model.path) / "config.json").read_bytes()).hexdigest()
    return recipe_key(config, software, f"{device} {platform.machine()}", model)
