"""vLLM's processes in one pod: their arguments, and the report fields that are equal in all pods of a replica."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Progress, RecipeKey
from gaudi_runtime.engine_protocol.group import LeaderEndpoint
from gaudi_runtime.engines.vllm.launch import Build, engine_arguments, launch, node_arguments, set_host_ip
from gaudi_runtime.engines.vllm.memory import create_rank_memory
from gaudi_runtime.engines.vllm.versions import check_release, read_installed_releases, vllm_recipe_key
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.attention_settings import fused_attention


class VllmProcesses:
    """vLLM's processes in this pod, started with the runtime's arguments."""

    def __init__(self, config: RuntimeConfig) -> None:
        """Check the configuration. Raises PlanImpossible for a model that does not fit, or another start error."""
        # Check the release before anything is imported or loaded. Otherwise an unsupported release of vLLM may fail
        # late, with an error that does not show the cause.
        releases = read_installed_releases(uses_cards=config.engine.device == "hpu")
        check_release(releases)
        self._release_support = releases.describe_support()
        self._attention = fused_attention(config, os.environ, can_tile=releases.tiles_queries)
        if config.engine.device == "cpu" and not config.limits.steps_by_tokens:
            raise ConfigError("limits.stepsByTokens must be true on a CPU, because vLLM's steps are planned by tokens.")
        self._config, self._memory = config, create_rank_memory(config)
        self._arguments = engine_arguments(config, self._memory.choose_kv_cache_size())

    def report_fields(self) -> Mapping[str, object]:
        """Return the report fields: the releases that run on a card, and the arguments of vLLM."""
        return {"releases": self._release_support, "engine_arguments": self._arguments}

    def recipe_key(self) -> RecipeKey | None:
        """Return the recipe key of the code on disk, which is equal in all pods; None if no code is stored on disk."""
        return vllm_recipe_key(self._config)

    def _launch(
        self, build: Build, progress: Progress, leader: LeaderEndpoint | None, rank: int, check: Callable[[], None]
    ) -> tuple[Any, Any]:
        """Call `launch`. If `leader` is given, the processes join the processes of other pods as pod `rank`."""
        arguments = self._arguments
        if leader:
            set_host_ip(leader)
            arguments = (*arguments, *node_arguments(leader, self._config.parallelism.nodes, rank))
        return launch(arguments, self._config, build, progress, check)
