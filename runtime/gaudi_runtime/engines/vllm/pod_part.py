"""vLLM's processes in a pod beside the leader's, whose engine reaches them itself (docs/several-nodes.md, vLLM)."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.protocol import Meeting, Progress, RecipeKey
from gaudi_runtime.engines.vllm.arguments import engine_arguments, meeting_arguments, tell_own_address
from gaudi_runtime.engines.vllm.launch import launch
from gaudi_runtime.engines.vllm.memory import memory_of
from gaudi_runtime.engines.vllm.ranks import died_here
from gaudi_runtime.engines.vllm.release import build_pod_part
from gaudi_runtime.engines.vllm.versions import check_release, installed, vllm_recipe_key
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.process.children import end_children


class VllmPodPart:
    """Pod `rank` of the group, above 0."""

    def __init__(self, config: RuntimeConfig, rank: int) -> None:
        """Raises PlanImpossible for a model that does not fit, and what else the configuration tells already."""
        check_release(installed(cards=config.engine.device == "hpu"))
        self._config, self._rank = config, rank
        self._arguments = engine_arguments(config, memory_of(config).before_start())
        self._executor: Any = None

    def report_fields(self) -> Mapping[str, object]:
        """The arguments that vLLM is started with."""
        return {"engine_arguments": self._arguments}

    def recipe_key(self) -> RecipeKey | None:
        """As of the leader: all ranks compile the same."""
        return vllm_recipe_key(self._config)

    def join(self, meeting: Meeting, progress: Progress) -> None:
        """Start the processes; returns when weights are loaded. Raises a RuntimeStartError."""
        tell_own_address(meeting)
        joined = meeting_arguments(meeting, self._config.parallelism.nodes, self._rank)
        mode = self._config.engine.execution_mode.value
        _, self._executor = launch((*self._arguments, *joined), mode, build_pod_part, progress)

    async def until_lost(self) -> EngineLost:
        """Returns when a process has died, as vLLM's own monitor of them sees at once."""
        loop, died = asyncio.get_running_loop(), asyncio.Event()
        self._executor.register_failure_callback(lambda: loop.call_soon_threadsafe(died.set))
        await died.wait()
        return died_here(self._executor)

    async def close(self) -> None:
        """End the processes at once, also those that still start: vLLM's own end waits nine seconds for them."""
        told = asyncio.to_thread(self._executor.shutdown if self._executor else lambda: None)
        await asyncio.gather(told, asyncio.to_thread(end_children))
