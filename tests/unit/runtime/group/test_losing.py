"""Detection of a lost rank, and the outcome of the running verb."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from gaudi_runtime.engine_protocol.messages import LeaderMessage, MessageVerb, UpdateMessage
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.group.peers import PACE
from tests.unit.runtime.group.ends import NO_TIMEOUTS, QUICK, End
from tests.unit.runtime.group.lead import Lead, group

pytestmark = QUICK


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (End.close, "its process has ended"),
        (End.reset, "its connection was lost: "),
        (lambda rank: rank.send_bytes(b"no json\n"), "its message cannot be parsed: "),
        (lambda rank: rank.send(LeaderMessage(farewell=True)), "its message cannot be parsed: "),
    ],
)
async def test_lost_rank_is_reported_with_the_reason(end: Callable[[End], None], why: str) -> None:
    async with group(size=3) as (lead, ranks):
        end(ranks[1])
        assert str(await lead.peers.wait_until_lost()).startswith(f"Rank 2 of this group is lost: {why}")


async def test_silent_rank_is_lost_after_the_timeout() -> None:
    lead = Lead(pace=dataclasses.replace(NO_TIMEOUTS, silence_seconds=0.01))
    async with lead.peers.accept_ranks():
        lost = asyncio.create_task(lead.peers.wait_until_lost())
        while not lost.done():  # On a busy machine even the hello may be late.
            async with lead.rank(1) as rank:
                assert await rank.is_closed()
        assert str(await lost) == "Rank 1 of this group is lost: it has sent nothing for 0 s."


def test_rank_without_a_heartbeat_is_lost_after_30_seconds() -> None:
    assert PACE.silence_seconds == 30


async def test_loss_of_a_rank_ends_pending_verbs_of_all_ranks() -> None:
    async with group(size=3) as (lead, ranks):
        answers = lead.peers.send_command(MessageVerb.PROFILE)
        await ranks[0].order()
        ranks[1].close()
        for answer in answers.values():
            with pytest.raises(EngineLost, match="Rank 2 of this group is lost"):
                await asyncio.wrap_future(answer)


async def test_answer_received_before_the_loss_is_kept() -> None:
    async with group(size=3) as (lead, ranks):
        answers = lead.peers.send_command(MessageVerb.CAPTURE)
        ranks[0].send(UpdateMessage(done=MessageVerb.CAPTURE, answer=5))
        assert (await asyncio.wrap_future(answers[1])).answer == 5
        ranks[1].close()
        await lead.peers.wait_until_lost()
        assert answers[1].result().answer == 5


async def test_verb_after_the_loss_ends_immediately() -> None:
    async with group(size=3) as (lead, ranks):
        ranks[0].close()
        await lead.peers.wait_until_lost()
        with pytest.raises(EngineLost, match="Rank 1 of this group is lost"):
            await asyncio.wrap_future(lead.peers.send_command(MessageVerb.PROFILE)[2])


async def test_first_loss_is_reported() -> None:
    async with group(size=3) as (lead, ranks):
        ranks[1].close()
        await lead.peers.wait_until_lost()
        ranks[0].close()
        assert await ranks[0].is_closed()
        assert "Rank 2" in str(await lead.peers.wait_until_lost())
