"""What a leader orders, and what it hears of its ranks."""

import asyncio
import dataclasses

import pytest

from gaudi_runtime.engine_protocol.messages import LeaderMessage, Update, Verb
from tests.unit.runtime.group.ends import PATIENT, QUICK
from tests.unit.runtime.group.lead import Lead, group

pytestmark = QUICK

MEBIBYTE = "x" * 2**20


async def test_every_rank_hears_the_verb_and_answers_for_itself() -> None:
    async with group(size=3) as (lead, ranks):
        answers = lead.peers.send_command(Verb.ALLOCATE, 7)
        assert [await rank.order() for rank in ranks] == [LeaderMessage(verb=Verb.ALLOCATE, arguments=(7,))] * 2
        for number, rank in enumerate(ranks, start=1):
            rank.say(Update(done=Verb.ALLOCATE, answer=number * 10))
        found = {rank: (await asyncio.wrap_future(answer)).answer for rank, answer in answers.items()}
    assert found == {1: 10, 2: 20}


async def test_answer_may_be_longer_than_usual_lines() -> None:
    async with group() as (lead, [rank]):
        answers = lead.peers.send_command(Verb.PLAN)
        rank.say(Update(done=Verb.PLAN, answer=MEBIBYTE))
        assert (await asyncio.wrap_future(answers[1])).answer == MEBIBYTE


async def test_second_answer_to_one_verb_changes_nothing() -> None:
    async with group() as (lead, [rank]):
        answers = lead.peers.send_command(Verb.CAPTURE)
        await rank.order()
        for answer in (1, 2):
            rank.say(Update(done=Verb.CAPTURE, answer=answer))
        rank.hang_up()
        assert "its process has ended" in str(await lead.peers.until_lost())
        assert answers[1].result().answer == 1


async def test_answer_that_nobody_asked_for_is_ignored() -> None:
    async with group() as (lead, [rank]):
        rank.say(Update(done=Verb.CAPTURE, answer=1))
        rank.hang_up()
        assert "its process has ended" in str(await lead.peers.until_lost())


async def test_serving_is_ordered_and_not_waited_for() -> None:
    async with group() as (lead, [rank]):
        lead.peers.serve()
        assert await rank.order() == LeaderMessage(verb=Verb.SERVE)


async def test_leader_says_again_and_again_that_it_lives() -> None:
    async with group(pace=dataclasses.replace(PATIENT, beat=0.001)) as (_, [rank]):
        assert [await rank.reader.readline() for _ in range(3)] == [b"{}\n"] * 3


async def test_what_moves_in_a_rank_moves_the_report() -> None:
    now = [0.0]
    lead = Lead(clock=lambda: now[0])
    async with lead.peers.listening(), lead.rank(1) as rank:
        await lead.complete()
        now[0] = 100.0
        for _ in range(2):
            rank.say(Update(moved=True))
        rank.say(Update(closing=True))
        while not lead.signals.closing:  # noqa: ASYNC110 - it tells nobody but those who ask
            await asyncio.sleep(0)
        assert (lead.peers.moves(), lead.board.report().since_progress_seconds) == (2, 0.0)


async def test_sign_of_life_moves_nothing() -> None:
    async with group() as (lead, [rank]):
        rank.say(Update())
        rank.hang_up()
        await lead.peers.until_lost()
        assert (lead.peers.moves(), lead.signals.closing, lead.signals.stop.is_set()) == (0, False, False)


@pytest.mark.parametrize(
    ("update", "asked"), [(Update(closing=True), (True, False)), (Update(stopping=True), (True, True))]
)
async def test_what_a_rank_is_asked_its_leader_is_asked_too(update: Update, asked: tuple[bool, bool]) -> None:
    async with group() as (lead, [rank]):
        rank.say(update)
        rank.hang_up()
        await lead.peers.until_lost()
        assert (lead.signals.closing, lead.signals.stop.is_set()) == asked
