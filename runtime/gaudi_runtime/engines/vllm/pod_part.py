"""vLLM's processes in a pod that is not the leader. The engine in the leader's pod connects to them directly.

See docs/how-to/several-nodes.md, vLLM.
"""

import asyncio
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import LeaderEndpoint
from gaudi_runtime.engines.vllm.processes import VllmProcesses
from gaudi_runtime.engines.vllm.ranks import dead_ranks_error
from gaudi_runtime.engines.vllm.vllm_imports import build_pod_part
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.process.children import end_children


class VllmPodPart(VllmProcesses):
    """The part of vLLM in a pod that is not the leader; its `rank` in the group is above 0."""

    def __init__(self, config: RuntimeConfig, rank: int) -> None:
        super().__init__(config)
        self._rank = rank
        self._executor: Any = None

    def join(self, leader: LeaderEndpoint, progress: Progress) -> None:
        """Start vLLM's processes and wait until they have loaded the weights. Raises a RuntimeStartError."""
        _, self._executor = self._launch(build_pod_part, progress, leader, self._rank, lambda: None)

    async def wait_until_lost(self) -> EngineLost:
        """Wait until vLLM's own monitor reports that a process has died, and return the error."""
        loop, died = asyncio.get_running_loop(), asyncio.Event()
        # Use `call_soon_threadsafe`, because vLLM's monitor calls back from its own thread.
        self._executor.register_failure_callback(lambda: loop.call_soon_threadsafe(died.set))
        await died.wait()
        return dead_ranks_error(self._executor)

    async def close(self) -> None:
        """Kill the processes immediately, including processes that are still starting."""
        # Run both at the same time. vLLM's own shutdown alone would wait nine seconds for processes that are still
        # starting.
        shutdown = asyncio.to_thread(self._executor.shutdown if self._executor else lambda: None)
        await asyncio.gather(shutdown, asyncio.to_thread(end_children))
