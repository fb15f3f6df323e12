"""vLLM's processes in a pod that does not lead: the engine of the leader's pod reaches them itself.

See docs/how-to/several-nodes.md, vLLM.
"""

import asyncio
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import Meeting
from gaudi_runtime.engines.vllm.processes import Processes
from gaudi_runtime.engines.vllm.ranks import died_here
from gaudi_runtime.engines.vllm.vllm_imports import build_pod_part
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.process.children import end_children


class VllmPodPart(Processes):
    """Pod `rank` of the group, above 0."""

    def __init__(self, config: RuntimeConfig, rank: int) -> None:
        super().__init__(config)
        self._rank = rank
        self._executor: Any = None

    def join(self, meeting: Meeting, progress: Progress) -> None:
        """Start the processes; returns when weights are loaded. Raises a RuntimeStartError."""
        _, self._executor = self._launch(build_pod_part, progress, meeting, self._rank, lambda: None)

    async def until_lost(self) -> EngineLost:
        """Returns when a process has died, as vLLM's own monitor of them sees at once."""
        loop, died = asyncio.get_running_loop(), asyncio.Event()
        # vLLM's monitor calls from a thread of its own.
        self._executor.register_failure_callback(lambda: loop.call_soon_threadsafe(died.set))
        await died.wait()
        return died_here(self._executor)

    async def close(self) -> None:
        """End the processes at once, also those that still start."""
        # Both at the same time: vLLM's own end waits nine seconds for processes that still start.
        told = asyncio.to_thread(self._executor.shutdown if self._executor else lambda: None)
        await asyncio.gather(told, asyncio.to_thread(end_children))
