"""The leader's orders, and the messages of its ranks."""

import asyncio
import dataclasses

import pytest

from gaudi_runtime.engine_protocol.messages import LeaderMessage, MessageVerb, UpdateMessage
from tests.unit.runtime.group.ends import NO_TIMEOUTS, QUICK
from tests.unit.runtime.group.lead import Lead, group

pytestmark = QUICK

MEBIBYTE = "x" * 2**20


async def test_verb_is_sent_to_every_rank_and_answered_per_rank() -> None:
    async with group(size=3) as (lead, ranks):
        answers = lead.peers.send_command(MessageVerb.ALLOCATE, 7)
        assert [await rank.order() for rank in ranks] == [LeaderMessage(verb=MessageVerb.ALLOCATE, arguments=(7,))] * 2
        for number, rank in enumerate(ranks, start=1):
            rank.send(UpdateMessage(done=MessageVerb.ALLOCATE, answer=number * 10))
        found = {rank: (await asyncio.wrap_future(answer)).answer for rank, answer in answers.items()}
    assert found == {1: 10, 2: 20}


async def test_answer_may_have_one_mebibyte() -> None:
    async with group() as (lead, [rank]):
        answers = lead.peers.send_command(MessageVerb.PLAN)
        rank.send(UpdateMessage(done=MessageVerb.PLAN, answer=MEBIBYTE))
        assert (await asyncio.wrap_future(answers[1])).answer == MEBIBYTE


async def test_second_answer_to_a_verb_is_ignored() -> None:
    async with group() as (lead, [rank]):
        answers = lead.peers.send_command(MessageVerb.CAPTURE)
        await rank.order()
        for answer in (1, 2):
            rank.send(UpdateMessage(done=MessageVerb.CAPTURE, answer=answer))
        rank.close()
        assert "its process has ended" in str(await lead.peers.wait_until_lost())
        assert answers[1].result().answer == 1


async def test_answer_without_a_verb_is_ignored() -> None:
    async with group() as (lead, [rank]):
        rank.send(UpdateMessage(done=MessageVerb.CAPTURE, answer=1))
        rank.close()
        assert "its process has ended" in str(await lead.peers.wait_until_lost())


async def test_serve_order_is_sent_without_waiting() -> None:
    async with group() as (lead, [rank]):
        lead.peers.announce_serving()
        assert await rank.order() == LeaderMessage(verb=MessageVerb.SERVE)


async def test_leader_sends_heartbeats() -> None:
    async with group(pace=dataclasses.replace(NO_TIMEOUTS, heartbeat_seconds=0.001)) as (_, [rank]):
        assert [await rank.reader.readline() for _ in range(3)] == [b"{}\n"] * 3


async def test_progress_of_a_rank_updates_the_report() -> None:
    now = [0.0]
    lead = Lead(clock=lambda: now[0])
    async with lead.peers.accept_ranks(), lead.rank(1) as rank:
        await lead.wait_until_complete()
        now[0] = 100.0
        for _ in range(2):
            rank.send(UpdateMessage(moved=True))
        rank.send(UpdateMessage(closing=True))
        while not lead.signals.closing:  # noqa: ASYNC110 - the signals have no event for it
            await asyncio.sleep(0)
        assert (lead.peers.progress_count(), lead.board.report().since_progress_seconds) == (2, 0.0)


async def test_heartbeat_does_not_count_as_progress() -> None:
    async with group() as (lead, [rank]):
        rank.send(UpdateMessage())
        rank.close()
        await lead.peers.wait_until_lost()
        assert (lead.peers.progress_count(), lead.signals.closing, lead.signals.stop.is_set()) == (0, False, False)


@pytest.mark.parametrize(
    ("update", "expected"), [(UpdateMessage(closing=True), (True, False)), (UpdateMessage(stopping=True), (True, True))]
)
async def test_signal_to_a_rank_is_sent_to_its_leader(update: UpdateMessage, expected: tuple[bool, bool]) -> None:
    async with group() as (lead, [rank]):
        rank.send(update)
        rank.close()
        await lead.peers.wait_until_lost()
        assert (lead.signals.closing, lead.signals.stop.is_set()) == expected
