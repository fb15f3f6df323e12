"""The life cycle of a rank that follows its leader."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable

import pytest

from gaudi_runtime.engine_protocol.messages import (
    HelloMessage,
    LeaderMessage,
    MessageVerb,
    UpdateMessage,
    message_config_digest,
)
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.group.follow import follow_leader
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.process.signals import Signals, Stopped
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import free_port, sim_config
from tests.unit.runtime.group.ends import LEADER, NO_TIMEOUTS, QUICK, End, serve_leader
from tests.unit.runtime.group.followed import IDLE, following_rank

pytestmark = QUICK

TOPOLOGY = Topology(1, 2, LEADER)


async def test_hello_has_the_rank_and_the_configuration_digest() -> None:
    async with following_rank() as rank:
        assert await rank.leader.hello() == HelloMessage(rank=1, config=message_config_digest(rank.config))


async def test_rank_retries_until_the_leader_is_available(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = sim_config(serving={"group_port": free_port()})
    rank = follow_leader(config, TOPOLOGY, ReportBoard("0" * 64), Signals(), lambda: IDLE, NO_TIMEOUTS)
    following = asyncio.create_task(rank)
    while not any(said.startswith(f"The leader {LEADER} cannot be reached yet: [Errno ") for said in caplog.messages):  # noqa: ASYNC110
        await asyncio.sleep(0)
    async with serve_leader(config.serving.group_port) as joined:
        leader = await joined.get()
        assert (await leader.hello()).rank == 1
        leader.send(LeaderMessage(farewell=True))
        await following


async def test_rank_waiting_for_its_leader_is_not_stalled() -> None:
    now, signals = [0.0], Signals()
    board = ReportBoard("0" * 64, lambda: now[0])
    rank = follow_leader(sim_config(), TOPOLOGY, board, signals, lambda: IDLE, NO_TIMEOUTS)
    following = asyncio.create_task(rank)
    now[0] = 100.0
    while board.report().since_progress_seconds:  # noqa: ASYNC110 - the board has no event for it
        await asyncio.sleep(0)
    signals.request_stop()
    with pytest.raises(Stopped):
        await following


async def test_refused_rank_ends_with_the_reason() -> None:
    async with following_rank() as rank:
        rank.leader.send(LeaderMessage(refused="Rank 1 may not join."))
        with pytest.raises(EngineLost, match=r"^Rank 1 may not join\.$"):
            await rank.following


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (End.close, "The leader process of this group has ended."),
        (End.reset, "The connection to the leader of this group was lost: "),
        (lambda leader: leader.send_bytes(b"no json\n"), "The connection to the leader of this group was lost: "),
        (
            lambda leader: leader.send(UpdateMessage(moved=True)),
            "The connection to the leader of this group was lost: ",
        ),
    ],
)
async def test_lost_leader_ends_the_rank_with_the_reason(end: Callable[[End], None], why: str) -> None:
    async with following_rank() as rank:
        await rank.leader.hello()
        end(rank.leader)
        with pytest.raises(EngineLost) as lost:
            await rank.following
    assert str(lost.value).startswith(why)


async def test_silent_leader_is_lost_after_the_timeout() -> None:
    async with following_rank(pace=dataclasses.replace(NO_TIMEOUTS, silence_seconds=0.01)) as rank:
        with pytest.raises(EngineLost, match=r"^The leader of this group has sent nothing for 0 s\.$"):
            await rank.following


async def test_heartbeat_runs_no_verb() -> None:
    async with following_rank() as rank:
        await rank.leader.hello()
        rank.leader.send(LeaderMessage())
        rank.leader.send(LeaderMessage(farewell=True))
        await rank.following
        assert await rank.leader.is_closed()


async def test_farewell_ends_the_rank_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with following_rank() as rank:
        await rank.leader.hello()
        rank.leader.send(LeaderMessage(farewell=True))
        await rank.following
    assert "The leader has ended this group." in caplog.messages


async def test_terminating_rank_works_until_the_farewell() -> None:
    async with following_rank() as rank:
        await rank.leader.hello()
        rank.signals.request_stop()
        assert await rank.leader.update() == UpdateMessage(closing=True, stopping=True)
        rank.leader.send(LeaderMessage(verb=MessageVerb.MEMORY))
        assert (await rank.leader.update()).done is MessageVerb.MEMORY
        rank.leader.send(LeaderMessage(farewell=True))
        await rank.following


async def test_terminating_rank_ends_after_its_timeout() -> None:
    async with following_rank(pace=dataclasses.replace(NO_TIMEOUTS, close_seconds=0.01)) as rank:
        await rank.leader.hello()
        rank.signals.request_stop()
        await rank.following
        assert (await rank.leader.update()).stopping
        assert await rank.leader.is_closed()


async def test_leader_lost_after_sigterm_is_an_error() -> None:
    async with following_rank() as rank:
        await rank.leader.hello()
        rank.signals.request_stop()
        await rank.leader.update()
        rank.leader.close()
        with pytest.raises(EngineLost):
            await rank.following


async def test_heartbeat_of_a_closing_rank_has_the_closing_flag() -> None:
    async with following_rank(pace=dataclasses.replace(NO_TIMEOUTS, heartbeat_seconds=0.001)) as rank:
        await rank.leader.hello()
        assert await rank.leader.update() == UpdateMessage()
        rank.signals.request_close()
        while (update := await rank.leader.update()) == UpdateMessage():
            pass
        assert update == UpdateMessage(closing=True)
