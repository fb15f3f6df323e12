"""How leader and ranks part."""

import asyncio
import dataclasses
from contextlib import AsyncExitStack

from gaudi_runtime.engine_protocol.messages import LeaderMessage, Update
from gaudi_runtime.group.peers import Pace
from tests.unit.runtime.group.ends import PATIENT, QUICK, End
from tests.unit.runtime.group.lead import Lead

pytestmark = QUICK

POLITE = dataclasses.replace(PATIENT, parting=3600)


async def parting(ranks: AsyncExitStack, pace: Pace = POLITE) -> "tuple[End, asyncio.Task[None]]":
    """A rank of a complete group, and its leader, which is about to part."""
    lead, listening = Lead(pace=pace), AsyncExitStack()
    await listening.enter_async_context(lead.peers.listening())
    rank = await ranks.enter_async_context(lead.rank(1))
    await lead.complete()
    return rank, asyncio.create_task(listening.aclose())


async def test_rank_hears_a_farewell_when_the_leader_ends() -> None:
    async with AsyncExitStack() as ranks:
        rank, leader = await parting(ranks)
        assert await rank.order() == LeaderMessage(farewell=True)
        rank.hang_up()
        await leader


async def test_farewell_arrives_though_the_rank_is_still_speaking() -> None:
    """A leader that closes with something unread resets the connection, and what it said last would be lost."""
    async with AsyncExitStack() as ranks:
        rank, leader = await parting(ranks)
        for _ in range(100):
            rank.say(Update(moved=True))
            await asyncio.sleep(0)
        assert await rank.order() == LeaderMessage(farewell=True)
        rank.hang_up()
        await leader


async def test_rank_that_does_not_hang_up_holds_nobody() -> None:
    async with AsyncExitStack() as ranks:
        rank, leader = await parting(ranks, PATIENT)
        await leader
        assert (await rank.order()).farewell
        assert await rank.hung_up()
