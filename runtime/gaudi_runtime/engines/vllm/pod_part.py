"""vLLM's processes in a pod that does not lead: the engine in the leader's pod connects to them itself.

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
    """The part of vLLM in pod `rank` of the group, which does not lead; `rank` is above 0."""

    def __init__(self, config: RuntimeConfig, rank: int) -> None:
        super().__init__(config)
        self._rank = rank
        self._executor: Any = None

    def join(self, meeting: Meeting, progress: Progress) -> None:
        """Start the processes and wait until they have loaded the weights. Raises a RuntimeStartError."""
        _, self._executor = self._launch(build_pod_part, progress, meeting, self._rank, lambda: None)

    async def until_lost(self) -> EngineLost:
        """Wait until vLLM's own monitor reports that a process has died, and return the reason."""
        loop, died = asyncio.get_running_loop(), asyncio.Event()
        # vLLM's monitor calls back in its own thread.
        self._executor.register_failure_callback(lambda: loop.call_soon_threadsafe(died.set))
        await died.wait()
        return died_here(self._executor)

    async def close(self) -> None:
        """End the processes at once, including those that are still starting."""
        # Both run at the same time, because vLLM's own shutdown waits nine seconds for processes that are
        # still starting.
        shutdown = asyncio.to_thread(self._executor.shutdown if self._executor else lambda: None)
        await asyncio.gather(shutdown, asyncio.to_thread(end_children))
