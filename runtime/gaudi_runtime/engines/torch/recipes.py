"""What compiled code of the torch engine on disk depends on (docs/warmup.md, Recipe cache)."""

import torch

from gaudi_runtime.contract.config import CompileBackend, RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.engines.recipe_key import kept_recipe_key
from gaudi_runtime.engines.torch.devices.interface import GRAPH_MODES


def torch_recipe_key(config: RuntimeConfig) -> RecipeKey | None:
    """The key, None where nothing compiled outlives the process: besides the Gaudi bridge only Inductor keeps files."""
    engine = config.engine
    inductor = engine.compile_backend is CompileBackend.INDUCTOR
    compiles = engine.execution_mode in GRAPH_MODES
    return kept_recipe_key(config, f"torch {torch.__version__}", keeps_files=inductor and compiles)
