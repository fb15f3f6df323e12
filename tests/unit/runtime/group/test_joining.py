"""Which ranks a leader takes in."""

import asyncio
import dataclasses
import logging
from contextlib import AsyncExitStack

import pytest

from gaudi_runtime.engine_protocol.messages import Hello, Update, encode_message
from gaudi_runtime.errors import PortUnavailable
from tests.unit.runtime.group.ends import PATIENT, QUICK, rank_by_hand
from tests.unit.runtime.group.lead import DIGEST, Lead, group

pytestmark = QUICK


async def test_group_of_three_waits_for_both_other_ranks() -> None:
    lead = Lead(size=3)
    async with lead.peers.listening(), AsyncExitStack() as ranks:
        for number, missing in ((1, [2]), (2, [])):
            await ranks.enter_async_context(lead.rank(number))
            await lead.misses(*missing)


async def test_log_counts_who_has_joined(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lead = Lead(size=3)
    async with lead.peers.listening(), lead.rank(2):
        await lead.misses(1)
    assert "Rank 2 has joined, 2 of 3 are here" in caplog.messages


@pytest.mark.parametrize(
    ("number", "config", "why"),
    [(2, DIGEST, "there is no such rank"), (1, "another", "its configuration is another one")],
)
async def test_rank_that_does_not_belong_here_hears_why(number: int, config: str, why: str) -> None:
    lead = Lead(size=2)
    async with lead.peers.listening(), lead.rank(number, config) as rank:
        assert (await rank.order()).refused == f"Rank {number} may not join this group: {why}."
        assert await rank.hung_up()


@pytest.mark.parametrize(
    "said",
    [
        b"no json\n",
        b'{"rank":0,"config":"digest"}\n',
        b'{"rank":1,"config":"digest","new":1}\n',
        encode_message(Update(moved=True)),
        b"",
    ],
)
async def test_connection_without_a_hello_is_closed(said: bytes) -> None:
    lead = Lead(pace=dataclasses.replace(PATIENT, silence=0.01))
    async with lead.peers.listening(), rank_by_hand(lead.port) as rank:
        rank.say_bytes(said)
        assert await rank.hung_up()
        assert lead.peers.missing(0) == [1]


async def test_rank_that_left_before_all_are_there_may_return(caplog: pytest.LogCaptureFixture) -> None:
    lead = Lead(size=3)
    async with lead.peers.listening():
        async with lead.rank(1):
            await lead.misses(2)
        await lead.misses(1, 2)
        async with lead.rank(1), lead.rank(2):
            await lead.complete()
    assert "Rank 1 has left: its process has ended" in caplog.messages


async def test_rank_that_is_sooner_back_than_missed_counts_once() -> None:
    lead = Lead(size=3)
    async with lead.peers.listening(), lead.rank(1) as before:
        await lead.misses(2)
        async with lead.rank(1) as now:
            assert await before.hung_up()
            assert lead.peers.missing(0) == [2]
            async with lead.rank(2):
                await lead.complete()
                lead.peers.serve()
                assert (await now.order()).verb == "serve"


async def test_rank_that_restarts_in_a_complete_group_is_lost() -> None:
    async with group() as (lead, _), lead.rank(1) as again:
        assert str(await lead.peers.until_lost()) == "Rank 1 of this group is lost: it has restarted."
        assert await again.hung_up()


async def test_pod_at_another_address_takes_no_rank_of_others() -> None:
    async with group() as (lead, (rank,)):
        async with rank_by_hand(lead.port, Hello(rank=1, config=DIGEST), source="127.0.0.3") as stranger:
            why = "Rank 1 may not join this group: a pod at another address has this rank."
            assert (await stranger.order()).refused == why
            assert await stranger.hung_up()
        lead.peers.serve()
        assert (await rank.order()).verb == "serve"


async def test_port_that_is_taken_is_reported_with_its_number() -> None:
    lead = Lead()
    async with await asyncio.start_server(lambda reader, writer: None, port=lead.port):
        with pytest.raises(PortUnavailable, match=rf"^Port {lead.port} for the ranks of this group is taken: .*in use"):
            async with lead.peers.listening():
                pass


async def test_hello_is_read_by_its_wire_name() -> None:
    assert encode_message(Hello(rank=1, config="abc")) == b'{"rank":1,"config":"abc"}\n'
