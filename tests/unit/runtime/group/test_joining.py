"""The ranks that a leader accepts."""

import asyncio
import dataclasses
import logging
from contextlib import AsyncExitStack

import pytest

from gaudi_runtime.engine_protocol.messages import HelloMessage, UpdateMessage, encode_message
from gaudi_runtime.errors import PortUnavailable
from tests.unit.runtime.group.ends import NO_TIMEOUTS, QUICK, connect_rank
from tests.unit.runtime.group.lead import DIGEST, Lead, group

pytestmark = QUICK


async def test_group_of_three_waits_for_both_other_ranks() -> None:
    lead = Lead(size=3)
    async with lead.peers.accept_ranks(), AsyncExitStack() as ranks:
        for number, missing in ((1, [2]), (2, [])):
            await ranks.enter_async_context(lead.rank(number))
            await lead.wait_until_missing(*missing)


async def test_joined_ranks_are_logged_with_their_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lead = Lead(size=3)
    async with lead.peers.accept_ranks(), lead.rank(2):
        await lead.wait_until_missing(1)
    assert "Rank 2 has joined: 2 of 3 ranks are connected" in caplog.messages


@pytest.mark.parametrize(
    ("number", "config", "why"),
    [
        (2, DIGEST, "the group has only 2 ranks, counted from 0"),
        (1, "another", "its configuration differs from the leader's configuration"),
    ],
)
async def test_refused_rank_gets_the_reason(number: int, config: str, why: str) -> None:
    lead = Lead(size=2)
    async with lead.peers.accept_ranks(), lead.rank(number, config) as rank:
        assert (await rank.order()).refused == f"Rank {number} may not join this group: {why}."
        assert await rank.is_closed()


@pytest.mark.parametrize(
    "content",
    [
        b"no json\n",
        b'{"rank":0,"config":"digest"}\n',
        b'{"rank":1,"config":"digest","new":1}\n',
        encode_message(UpdateMessage(moved=True)),
        b"",
    ],
)
async def test_connection_without_a_hello_is_closed(content: bytes) -> None:
    lead = Lead(pace=dataclasses.replace(NO_TIMEOUTS, silence_seconds=0.01))
    async with lead.peers.accept_ranks(), connect_rank(lead.port) as rank:
        rank.send_bytes(content)
        assert await rank.is_closed()
        assert lead.peers.poll_missing_ranks(0) == [1]


async def test_rank_may_rejoin_an_incomplete_group(caplog: pytest.LogCaptureFixture) -> None:
    lead = Lead(size=3)
    async with lead.peers.accept_ranks():
        async with lead.rank(1):
            await lead.wait_until_missing(2)
        await lead.wait_until_missing(1, 2)
        async with lead.rank(1), lead.rank(2):
            await lead.wait_until_complete()
    assert "Rank 1 has left the group: its process has ended" in caplog.messages


async def test_reconnected_rank_replaces_its_earlier_connection() -> None:
    lead = Lead(size=3)
    async with lead.peers.accept_ranks(), lead.rank(1) as before:
        await lead.wait_until_missing(2)
        async with lead.rank(1) as now:
            assert await before.is_closed()
            assert lead.peers.poll_missing_ranks(0) == [2]
            async with lead.rank(2):
                await lead.wait_until_complete()
                lead.peers.announce_serving()
                assert (await now.order()).verb == "serve"


async def test_rank_that_restarts_in_a_complete_group_is_lost() -> None:
    async with group() as (lead, _), lead.rank(1) as again:
        assert str(await lead.peers.wait_until_lost()) == "Rank 1 of this group is lost: it has restarted."
        assert await again.is_closed()


async def test_rank_of_a_joined_pod_is_refused_to_another_address() -> None:
    async with group() as (lead, (rank,)):
        async with connect_rank(lead.port, HelloMessage(rank=1, config=DIGEST), source="127.0.0.3") as stranger:
            why = "Rank 1 may not join this group: a pod at another address already has this rank."
            assert (await stranger.order()).refused == why
            assert await stranger.is_closed()
        lead.peers.announce_serving()
        assert (await rank.order()).verb == "serve"


async def test_port_in_use_is_reported_with_its_number() -> None:
    lead = Lead()
    async with await asyncio.start_server(lambda reader, writer: None, port=lead.port):
        with pytest.raises(PortUnavailable, match=rf"^Port {lead.port} for the ranks of this group is in use:"):
            async with lead.peers.accept_ranks():
                pass


async def test_hello_is_encoded_with_its_wire_names() -> None:
    assert encode_message(HelloMessage(rank=1, config="abc")) == b'{"rank":1,"config":"abc"}\n'
