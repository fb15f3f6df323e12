"""The other pods as an engine that spans pods sees them."""

import asyncio
import contextlib
from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

import pytest

from gaudi_runtime.errors import EngineLost, ModelNotFound, RankFailed
from gaudi_runtime.group.messages import Hello, Update, Verb, failure_of
from gaudi_runtime.group.peers import Peers, send
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.http.report_board import ReportBoard
from gaudi_runtime.process.signals import Signals
from tests.unit.runtime.configs import free_port

HERE = "10.0.0.7"


class Board:
    """Keeps the warnings that were published."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, ...]] = [()]

    def report(self) -> SimpleNamespace:
        return SimpleNamespace(warnings=self.warnings[-1])

    def update(self, *, warnings: tuple[str, ...]) -> None:
        self.warnings.append(warnings)


class Connections(Peers):
    """Without a connection: rank 2 joins at the third look."""

    def __init__(self) -> None:
        self.board = Board()
        topology = Topology(rank=0, size=3, leader=HERE)
        super().__init__(topology, 0, "digest", cast("ReportBoard", self.board), cast("Signals", None))
        self.missed = iter([[1, 2], [2], []])
        self.ordered: list[tuple[Verb, tuple[object, ...]]] = []
        self.answers: dict[int, Future[Update]] = {1: Future(), 2: Future()}

    def missing(self, seconds: float) -> list[int]:
        return next(self.missed)

    def address(self) -> str:
        return HERE

    def order(self, verb: Verb, *arguments: object) -> dict[int, Future[Update]]:
        self.ordered.append((verb, arguments))
        return self.answers


async def test_start_waits_for_every_pod_and_reports_for_which() -> None:
    peers, moved = Connections(), list[int]()
    peers.start(lambda: moved.append(1))
    warnings = ["The group waits for the pods of rank 1, 2.", "The group waits for the pod of rank 2."]
    assert (peers.board.warnings, len(moved)) == ([(), *((each,) for each in warnings), ()], 2)


async def test_every_pod_is_notified_where_to_meet() -> None:
    peers = Connections()
    meeting = peers.start(lambda: None)
    assert meeting.address == HERE
    assert peers.ordered == [(Verb.LOAD, tuple(meeting))]


async def test_group_of_three_waits_for_both_other_ranks() -> None:
    port, topology = free_port(), Topology(rank=0, size=3, leader=HERE)
    peers = Peers(topology, port, "digest", cast("ReportBoard", Board()), cast("Signals", None))
    async with peers.listening(), contextlib.AsyncExitStack() as closing:
        for rank, missing in ((1, [2]), (2, [])):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            closing.callback(writer.close)
            send(writer, Hello(rank=rank, config="digest"))
            while rank in peers.missing(0):  # noqa: ASYNC110 - they tell nobody but those who ask
                await asyncio.sleep(0)
            assert peers.missing(0) == missing


async def test_rank_whose_connection_ends_is_lost() -> None:
    port, topology = free_port(), Topology(rank=0, size=2, leader=HERE)
    peers = Peers(topology, port, "digest", cast("ReportBoard", Board()), cast("Signals", None))
    async with peers.listening():
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        send(writer, Hello(rank=1, config="digest"))
        writer.write_eof()
        assert str(await peers.until_lost()) == "Rank 1 of this group is lost: its process has ended."
        writer.close()


async def test_pod_that_cannot_start_is_named_with_its_reason() -> None:
    peers = Connections()
    peers.start(lambda: None)
    peers.raise_if_failed()
    peers.answers[2].set_result(Update(done=Verb.LOAD, failure=failure_of(ModelNotFound("/models is empty."))))
    with pytest.raises(RankFailed, match=r"^Rank 2: /models is empty\.$") as failed:
        peers.raise_if_failed()
    assert failed.value.reason == "ModelNotFound"


async def test_pod_that_is_lost_while_it_starts_ends_the_start() -> None:
    peers = Connections()
    peers.start(lambda: None)
    peers.answers[1].set_exception(EngineLost("Rank 1 of this group is lost."))
    with pytest.raises(EngineLost):
        peers.raise_if_failed()
