"""What makes the engine of a pod that serves: its own one, or one over all pods of its group."""

import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.protocol import Engine, Meeting, Progress, SpansPods
from gaudi_runtime.group.engine import GroupEngine, RankedEngine
from gaudi_runtime.group.members import Members, wait_for_all
from gaudi_runtime.group.messages import Verb, Word, config_digest, raise_first_failure
from gaudi_runtime.group.place import Place
from gaudi_runtime.http.report_board import ReportBoard
from gaudi_runtime.process.exit import ended_when_lost
from gaudi_runtime.process.signals import Signals

Make = Callable[[RuntimeConfig], Engine]


@asynccontextmanager
async def over_the_group(
    config: RuntimeConfig, place: Place, board: ReportBoard, signals: Signals, make: Make
) -> AsyncIterator[Make]:
    """`make` where the pod is alone; otherwise the ranks may join while the block runs, and end it when one is lost.

    Raises PortUnavailable.
    """
    if place.size == 1:
        yield make
        return
    digest = config_digest(config)
    async with (
        Members(place, config.serving.group_port, digest, board.touch, signals) as members,
        ended_when_lost(members.until_lost, board),
    ):
        waits = partial(_say_who_is_missing, board)

        def make_over_all(config: RuntimeConfig) -> Engine:
            own = make(config)
            if isinstance(own, SpansPods):
                own.span(OtherPods(members, waits))
                return own
            return GroupEngine(cast("RankedEngine", own), members, waits)

        yield make_over_all


def _say_who_is_missing(board: ReportBoard, ranks: list[int]) -> None:
    named = ", ".join(map(str, ranks))
    warnings = (f"The group waits for the pods of rank {named}.",) if ranks else ()
    if board.report().warnings != warnings:
        board.update(warnings=warnings)


class OtherPods:
    """The other pods of a group for an engine whose own launcher joins their processes to its own.

    `members` are their connections; `waits` hears for which ranks the group waits.
    """

    def __init__(self, members: Members, waits: Callable[[list[int]], None]) -> None:
        self._members, self._waits = members, waits
        self._starting: dict[int, Future[Word]] = {}

    def start(self, progress: Progress) -> Meeting:
        """Wait until all are there and let each start its processes, which is not waited for."""
        wait_for_all(self._members, self._waits, progress)
        meeting = Meeting(self._members.address(), free_port())
        self._starting = self._members.tell(Verb.LOAD, *meeting)
        return meeting

    def raise_if_failed(self) -> None:
        """Raises RankFailed with the reason of a pod that could not start its processes, EngineLost for one lost."""
        raise_first_failure({rank: each.result() for rank, each in self._starting.items() if each.done()})

    def moves(self) -> int:
        """Grows whenever something moves in one of them."""
        return self._members.moves

    def serve(self) -> None:
        """Let them say that the replica serves; nothing is waited for."""
        self._members.tell(Verb.SERVE)


def free_port() -> int:
    """A port that nobody listens on now; whoever takes it first has it."""
    with socket.create_server(("", 0)) as probe:
        return int(probe.getsockname()[1])
