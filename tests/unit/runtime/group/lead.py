"""A real leader in this process, and ranks by hand."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from gaudi_runtime.engine_protocol.messages import Hello
from gaudi_runtime.group.peers import Pace, Peers
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.process.signals import Signals
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import free_port
from tests.unit.runtime.group.ends import HOST, PATIENT, End, rank_by_hand

DIGEST = "digest"


class Lead:
    """The leader of `size` pods, on a port of its own."""

    def __init__(self, size: int = 2, pace: Pace = PATIENT, clock: Callable[[], float] = time.monotonic) -> None:
        self.port, self.board, self.signals = free_port(), ReportBoard("0" * 64, clock), Signals()
        self.peers = Peers(Topology(0, size, HOST), self.port, DIGEST, self.board, self.signals, pace)

    def rank(self, number: int, config: str = DIGEST) -> AbstractAsyncContextManager[End]:
        """Connect a rank, which says its hello."""
        return rank_by_hand(self.port, Hello(rank=number, config=config))

    async def complete(self) -> None:
        """Wait until all are there."""
        await self.misses()

    async def misses(self, *ranks: int) -> None:
        """Wait until only these are not there."""
        while self.peers.missing(0) != [*ranks]:  # noqa: ASYNC110 - they tell nobody but those who ask
            await asyncio.sleep(0)


@asynccontextmanager
async def group(size: int = 2, pace: Pace = PATIENT) -> AsyncIterator[tuple[Lead, list[End]]]:
    """A leader whose ranks are all there, from rank 1 on."""
    lead = Lead(size, pace)
    async with lead.peers.listening(), AsyncExitStack() as ranks:
        ends = [await ranks.enter_async_context(lead.rank(number)) for number in range(1, size)]
        await lead.complete()
        yield lead, ends
