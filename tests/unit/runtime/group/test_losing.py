"""How a leader notices that a rank is lost, and what becomes of the verb that it was at."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from gaudi_runtime.engine_protocol.messages import LeaderMessage, Update, Verb
from gaudi_runtime.errors import EngineLost
from tests.unit.runtime.group.ends import PATIENT, QUICK, End
from tests.unit.runtime.group.lead import Lead, group

pytestmark = QUICK


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (End.hang_up, "its process has ended"),
        (End.reset, "its connection broke: "),
        (lambda rank: rank.say_bytes(b"no json\n"), "what it sends cannot be read: "),
        (lambda rank: rank.say(LeaderMessage(farewell=True)), "what it sends cannot be read: "),
    ],
)
async def test_lost_rank_is_named_with_the_reason(end: Callable[[End], None], why: str) -> None:
    async with group(size=3) as (lead, ranks):
        end(ranks[1])
        assert str(await lead.peers.until_lost()).startswith(f"Rank 2 of this group is lost: {why}")


async def test_rank_that_says_nothing_for_long_is_lost() -> None:
    lead = Lead(pace=dataclasses.replace(PATIENT, silence=0.01))
    async with lead.peers.listening():
        lost = asyncio.create_task(lead.peers.until_lost())
        while not lost.done():  # on a busy machine the hello itself may be late
            async with lead.rank(1) as rank:
                assert await rank.hung_up()
        assert str(await lost) == "Rank 1 of this group is lost: it has sent nothing for 0 s."


async def test_verb_ends_for_all_ranks_when_one_is_lost() -> None:
    async with group(size=3) as (lead, ranks):
        answers = lead.peers.send_command(Verb.PROFILE)
        await ranks[0].order()
        ranks[1].hang_up()
        for answer in answers.values():
            with pytest.raises(EngineLost, match="Rank 2 of this group is lost"):
                await asyncio.wrap_future(answer)


async def test_answer_that_came_before_the_loss_stays() -> None:
    async with group(size=3) as (lead, ranks):
        answers = lead.peers.send_command(Verb.CAPTURE)
        ranks[0].say(Update(done=Verb.CAPTURE, answer=5))
        assert (await asyncio.wrap_future(answers[1])).answer == 5
        ranks[1].hang_up()
        await lead.peers.until_lost()
        assert answers[1].result().answer == 5


async def test_verb_after_the_loss_ends_at_once() -> None:
    async with group(size=3) as (lead, ranks):
        ranks[0].hang_up()
        await lead.peers.until_lost()
        with pytest.raises(EngineLost, match="Rank 1 of this group is lost"):
            await asyncio.wrap_future(lead.peers.send_command(Verb.PROFILE)[2])


async def test_first_loss_is_the_one_that_is_told() -> None:
    async with group(size=3) as (lead, ranks):
        ranks[1].hang_up()
        await lead.peers.until_lost()
        ranks[0].hang_up()
        assert await ranks[0].hung_up()
        assert "Rank 2" in str(await lead.peers.until_lost())
