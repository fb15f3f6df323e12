"""A real leader in this process with fake ranks."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from gaudi_runtime.engine_protocol.messages import HelloMessage
from gaudi_runtime.group.peers import Pace, Peers
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.process.signals import Signals
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import free_port
from tests.unit.runtime.group.ends import HOST, NO_TIMEOUTS, End, connect_rank

DIGEST = "digest"


class Lead:
    """The leader of `size` pods, on a free port."""

    def __init__(self, size: int = 2, pace: Pace = NO_TIMEOUTS, clock: Callable[[], float] = time.monotonic) -> None:
        self.port, self.board, self.signals = free_port(), ReportBoard("0" * 64, clock), Signals()
        self.peers = Peers(Topology(0, size, HOST), self.port, DIGEST, self.board, self.signals, pace)

    def rank(self, number: int, config: str = DIGEST) -> AbstractAsyncContextManager[End]:
        """Connect a rank, which sends its hello message."""
        return connect_rank(self.port, HelloMessage(rank=number, config=config))

    async def wait_until_complete(self) -> None:
        """Wait until all ranks have joined."""
        await self.wait_until_missing()

    async def wait_until_missing(self, *ranks: int) -> None:
        """Wait until exactly these ranks are missing."""
        while self.peers.poll_missing_ranks(0) != [*ranks]:  # noqa: ASYNC110 - the peers have no event for it
            await asyncio.sleep(0)


@asynccontextmanager
async def group(size: int = 2, pace: Pace = NO_TIMEOUTS) -> AsyncIterator[tuple[Lead, list[End]]]:
    """Run a leader of `size` pods. Yield the leader and its ranks, which have all joined."""
    lead = Lead(size, pace)
    async with lead.peers.accept_ranks(), AsyncExitStack() as ranks:
        ends = [await ranks.enter_async_context(lead.rank(number)) for number in range(1, size)]
        await lead.wait_until_complete()
        yield lead, ends
