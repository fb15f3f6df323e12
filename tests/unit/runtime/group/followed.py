"""A real rank in this process that follows a fake leader."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import PodPart, Rank
from gaudi_runtime.engine_protocol.messages import MessageVerb
from gaudi_runtime.group.follow import follow_leader
from gaudi_runtime.group.peers import Pace
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.process.signals import Signals
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import free_port, sim_config
from tests.unit.runtime.group.ends import LEADER, NO_TIMEOUTS, End, serve_leader


class Scripted:
    """A rank whose verbs are implemented by one function."""

    def __init__(self, run_command: Callable[[MessageVerb, Sequence[Any], Progress], Any]) -> None:
        self.run_command = run_command

    def report_fields(self) -> Mapping[str, object]:
        return {}

    def recipe_key(self) -> None:
        return None


IDLE = Scripted(lambda verb, arguments, progress: None)


@dataclass
class FollowingRank:
    """A rank that follows a leader, and the leader's end of the connection."""

    config: RuntimeConfig
    board: ReportBoard
    signals: Signals
    following: "asyncio.Task[None]"
    leader: End


@asynccontextmanager
async def following_rank(
    engine: Rank | PodPart = IDLE,
    pace: Pace = NO_TIMEOUTS,
    make: Callable[[], Rank | PodPart] | None = None,
    works: Callable[[], object] = lambda: 0,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[FollowingRank]:
    """Run a rank that has joined a fake leader. The rank's engine comes from `make`, or is `engine`."""
    config = sim_config(serving={"group_port": free_port(), "drain_seconds": 0})
    board, signals = ReportBoard("0" * 64, clock), Signals()
    async with serve_leader(config.serving.group_port) as joined:
        topology = Topology(1, 2, LEADER)
        rank = follow_leader(config, topology, board, signals, make or (lambda: engine), pace, works)
        following = asyncio.create_task(rank)
        joining = asyncio.create_task(joined.get())
        try:
            await asyncio.wait({following, joining}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            yield FollowingRank(config, board, signals, following, await joining)
        finally:
            for task in (following, joining):
                task.cancel()
            await asyncio.gather(following, joining, return_exceptions=True)
