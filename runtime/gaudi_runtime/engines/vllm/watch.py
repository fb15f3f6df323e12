"""Sees within seconds that vLLM died or hangs while it serves, and takes over what its workers count.

A worker's death shows in a flag of vLLM's; for a hang the workers are asked for their counts every few seconds.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.engines.vllm.ranks import Ranks, died
from gaudi_runtime.errors import EngineLost, RankFailed
from gaudi_runtime.process.children import measure_activity

log = logging.getLogger(__name__)

Counts = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Pace:
    """Seconds between two questions, between two looks while an answer is late, and until silence is a hang."""

    ask: float
    look: float
    hang: float


PACE = Pace(ask=2.0, look=0.5, hang=30.0)


class Watch:
    """`engine` is vLLM's AsyncLLM.

    `absorb` takes the counts of the first rank of each engine core: all ranks of a core make the same steps.
    """

    def __init__(
        self,
        engine: Any,
        ranks: Ranks,
        absorb: Callable[[Counts], None],
        longest_step: float,
        moves: Callable[[], int] = lambda: 0,
        pace: Pace = PACE,
        works: Callable[[], object] = measure_activity,
    ) -> None:
        """`longest_step` in seconds: no step may take longer, even if it works.

        `moves` grows as other pods work, and what `works` returns changes as the processes of this pod do.
        """
        self._engine, self._ranks, self._absorb, self._longest_step = engine, ranks, absorb, longest_step
        self._moves, self._pace, self._works = moves, pace, works

    async def until_lost(self) -> EngineLost:
        """Returns when nothing will ever be answered again, with the sentence that says why."""
        while True:
            # A hang shows nowhere in vLLM: its own health check passes. So each look is a question to every worker.
            asked = asyncio.ensure_future(self._ranks.ask_cores("counters", deadline=self._longest_step))
            try:
                await self._answered(asked)
                for first, *_ in asked.result():
                    self._take(first)
            except (EngineLost, RankFailed) as error:
                return self._died() if self._engine.errored else EngineLost(str(error))
            finally:
                asked.cancel()
            await asyncio.sleep(self._pace.ask)

    def _died(self) -> EngineLost:
        return died(self._engine, "while it served", self._ranks.note)

    def _take(self, counts: Counts) -> None:
        try:
            self._absorb(counts)
        except ValueError:
            # Counting must not end what serves.
            log.exception("What the workers of vLLM counted cannot be taken over")

    async def _answered(self, asked: "asyncio.Future[Any]") -> None:
        """Wait for the answer. Raises EngineLost for processes that are dead, or neither answer nor work."""
        still: tuple[object, int] | None = None
        moved = time.monotonic()
        while not asked.done():
            await asyncio.wait({asked}, timeout=self._pace.look)
            if self._engine.errored:
                raise self._died()
            if asked.done():
                return
            # Only while an answer is late: a look takes milliseconds, which tokens would wait for. A step that compiles
            # answers late, too, but it works, perhaps in another pod.
            if (now := (await asyncio.to_thread(self._works), self._moves())) != still:
                still, moved = now, time.monotonic()
            elif time.monotonic() - moved > self._pace.hang:
                raise EngineLost(f"vLLM hangs: it neither answered nor worked for {self._pace.hang:.0f} s.")
