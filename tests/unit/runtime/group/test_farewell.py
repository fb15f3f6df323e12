"""Closing the connection between leader and ranks."""

import asyncio
import dataclasses
from contextlib import AsyncExitStack

from gaudi_runtime.engine_protocol.messages import LeaderMessage, UpdateMessage
from gaudi_runtime.group.peers import Pace
from tests.unit.runtime.group.ends import NO_TIMEOUTS, QUICK, End
from tests.unit.runtime.group.lead import Lead

pytestmark = QUICK

POLITE = dataclasses.replace(NO_TIMEOUTS, farewell_seconds=3600)


async def closing_group(ranks: AsyncExitStack, pace: Pace = POLITE) -> "tuple[End, asyncio.Task[None]]":
    """Return a rank of a complete group, and the task in which the group's leader closes."""
    lead, listening = Lead(pace=pace), AsyncExitStack()
    await listening.enter_async_context(lead.peers.accept_ranks())
    rank = await ranks.enter_async_context(lead.rank(1))
    await lead.wait_until_complete()
    return rank, asyncio.create_task(listening.aclose())


async def test_leader_sends_a_farewell_when_it_ends() -> None:
    async with AsyncExitStack() as ranks:
        rank, leader = await closing_group(ranks)
        assert await rank.order() == LeaderMessage(farewell=True)
        rank.close()
        await leader


async def test_farewell_arrives_while_the_rank_still_sends() -> None:
    """If a leader closes with unread data, the connection is reset and the leader's last message is lost."""
    async with AsyncExitStack() as ranks:
        rank, leader = await closing_group(ranks)
        for _ in range(100):
            rank.send(UpdateMessage(moved=True))
            await asyncio.sleep(0)
        assert await rank.order() == LeaderMessage(farewell=True)
        rank.close()
        await leader


async def test_rank_that_stays_connected_does_not_block_the_leader() -> None:
    async with AsyncExitStack() as ranks:
        rank, leader = await closing_group(ranks, NO_TIMEOUTS)
        await leader
        assert (await rank.order()).farewell
        assert await rank.is_closed()
