"""What compiled code of vLLM on disk depends on (docs/warmup.md, Recipe cache)."""

from importlib.metadata import version

from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.engines.recipe_key import kept_recipe_key
from gaudi_runtime.engines.vllm.versions import installed_release, installed_version


def vllm_recipe_key(config: RuntimeConfig) -> RecipeKey | None:
    """The key, None where nothing compiled outlives the process: besides the Gaudi bridge only Inductor keeps files."""
    software = f"vllm {installed_release()} torch {version('torch')}"
    if plugin := installed_version("vllm-gaudi"):
        software += f" vllm-gaudi {plugin}"
    compiles = config.engine.execution_mode is ExecutionMode.TORCH_COMPILE
    return kept_recipe_key(config, software, keeps_files=compiles)
