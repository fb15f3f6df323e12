"""Detection of a dead or hung vLLM within seconds during serving, and collection of the workers' counts.

A flag of vLLM shows that a worker died. To detect a hang, this module calls the workers for their counts every few
seconds.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.engines.vllm.ranks import Ranks, dead_engine_error
from gaudi_runtime.errors import EngineLost, RankFailed
from gaudi_runtime.process.children import measure_activity

log = logging.getLogger(__name__)

Counts = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Pace:
    """The intervals of watching vLLM in seconds: between calls, between checks of a late answer, and until a hang."""

    poll_interval: float
    check_interval: float
    hang_timeout: float


PACE = Pace(poll_interval=2.0, check_interval=0.5, hang_timeout=30.0)


class Watch:
    """A watch over `engine`, which is vLLM's AsyncLLM, while it serves.

    `absorb` receives the counts of the first rank of each engine core, because all ranks of a core run the same steps.
    """

    def __init__(
        self,
        engine: Any,
        ranks: Ranks,
        absorb: Callable[[Counts], None],
        max_step_seconds: float,
        progress: Callable[[], int] = lambda: 0,
        pace: Pace = PACE,
        activity: Callable[[], object] = measure_activity,
    ) -> None:
        """Create the watch. No step may take longer than `max_step_seconds`, even if processes are active.

        `progress` returns a number that grows while other pods work. `activity` returns a value that changes while the
        processes of this pod work.
        """
        self._engine, self._ranks, self._absorb, self._max_step_seconds = engine, ranks, absorb, max_step_seconds
        self._progress, self._pace, self._activity = progress, pace, activity

    async def wait_until_lost(self) -> EngineLost:
        """Wait until the engine can no longer serve, and return the error."""
        while True:
            # Call every worker, because vLLM's own health check passes even if vLLM hangs.
            call = asyncio.ensure_future(self._ranks.call_cores("counters", deadline=self._max_step_seconds))
            try:
                await self._wait_for_answer(call)
                for counts, *_ in call.result():
                    self._add_counts(counts)
            except (EngineLost, RankFailed) as error:
                return self._dead_engine_error() if self._engine.errored else EngineLost(str(error))
            finally:
                call.cancel()
            await asyncio.sleep(self._pace.poll_interval)

    def _dead_engine_error(self) -> EngineLost:
        return dead_engine_error(self._engine, "while it served", self._ranks.note)

    def _add_counts(self, counts: Counts) -> None:
        try:
            self._absorb(counts)
        except ValueError:
            # An error in the counters must not stop serving.
            log.exception("The counts of vLLM's workers cannot be read, but serving continues")

    async def _wait_for_answer(self, call: "asyncio.Future[Any]") -> None:
        """Wait for the answer. Raises EngineLost if a process died, or if vLLM neither answers nor works."""
        last_activity: tuple[object, int] | None = None
        clock = asyncio.get_running_loop().time
        changed_at = clock()
        while not call.done():
            await asyncio.wait({call}, timeout=self._pace.check_interval)
            if self._engine.errored:
                raise self._dead_engine_error()
            if call.done():
                return
            # Measure work only while an answer is late, because each measurement takes milliseconds and would delay
            # tokens. During a compile the answer is late, too, but the processes work, perhaps in another pod.
            if (activity := (await asyncio.to_thread(self._activity), self._progress())) != last_activity:
                last_activity, changed_at = activity, clock()
            elif clock() - changed_at > self._pace.hang_timeout:
                raise EngineLost(f"vLLM hangs: it neither answered nor worked for {self._pace.hang_timeout:.0f} s.")
