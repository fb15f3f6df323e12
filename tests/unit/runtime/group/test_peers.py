"""The interface to the other pods for an engine that spans pods."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gaudi_runtime.engine_protocol.messages import LeaderMessage, MessageVerb, UpdateMessage, failure_message_from_error
from gaudi_runtime.errors import EngineLost, ModelNotFound, RankFailed
from gaudi_runtime.process.worker import run_in_worker_thread
from tests.unit.runtime.group.ends import HOST, QUICK, End
from tests.unit.runtime.group.lead import Lead, group

pytestmark = QUICK


async def test_leader_reports_the_missing_ranks() -> None:
    lead, loop = Lead(size=4), asyncio.get_running_loop()
    reported: list[tuple[str, ...]] = []

    async with lead.peers.accept_ranks(), AsyncExitStack() as ranks:

        async def join(number: int) -> None:
            await ranks.enter_async_context(lead.rank(number))

        def progress() -> None:
            """Let one more rank join whenever the warnings have changed."""
            warnings = lead.board.report().warnings
            if warnings not in reported:
                reported.append(warnings)
                asyncio.run_coroutine_threadsafe(join(len(reported)), loop).result()

        await run_in_worker_thread(lambda: lead.peers.wait_for_ranks(progress))
        assert lead.board.report().warnings == ()
    assert reported == [
        ("The group waits for the pods of ranks 1, 2, 3.",),
        ("The group waits for the pods of ranks 2, 3.",),
        ("The group waits for the pod of rank 3.",),
    ]


async def test_complete_group_does_not_change_the_report() -> None:
    async with group() as (lead, _):
        before = lead.board.report().sequence
        await run_in_worker_thread(lambda: lead.peers.wait_for_ranks(lambda: None))
        assert lead.board.report().sequence == before


async def test_waiting_for_ranks_changes_the_report_once() -> None:
    lead, looks = Lead(), iter(range(3))
    sequences: list[int] = []

    def progress() -> None:
        sequences.append(lead.board.report().sequence)
        if next(looks, None) is None:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await run_in_worker_thread(lambda: lead.peers.wait_for_ranks(progress))
    assert len(set(sequences)) == 1


async def test_start_waits_for_every_pod() -> None:
    lead, loop = Lead(), asyncio.get_running_loop()
    joined: list[End] = []
    async with lead.peers.accept_ranks(), AsyncExitStack() as ranks:

        def progress() -> None:
            if not joined:
                joining = ranks.enter_async_context(lead.rank(1))
                joined.append(asyncio.run_coroutine_threadsafe(joining, loop).result())

        await run_in_worker_thread(lambda: lead.peers.start(progress))
        assert (await joined[0].order()).verb is MessageVerb.LOAD


async def test_load_order_has_the_address_of_a_free_port() -> None:
    async with group() as (lead, [rank]):
        meeting = await run_in_worker_thread(lambda: lead.peers.start(lambda: None))
        assert await rank.order() == LeaderMessage(verb=MessageVerb.LOAD, arguments=tuple(meeting))
        assert meeting.address == HOST
        assert meeting.port > 1023
        async with await asyncio.start_server(lambda reader, writer: None, port=meeting.port):
            pass


async def test_no_failure_is_raised_before_the_start_order() -> None:
    Lead().peers.raise_if_failed()


async def test_pod_that_cannot_start_is_reported_with_its_reason() -> None:
    async with group(size=3) as (lead, ranks):
        await run_in_worker_thread(lambda: lead.peers.start(lambda: None))
        lead.peers.raise_if_failed()
        ranks[1].send(
            UpdateMessage(done=MessageVerb.LOAD, failure=failure_message_from_error(ModelNotFound("/models is empty.")))
        )
        ranks[1].send(UpdateMessage(moved=True))
        while not lead.peers.progress_count():  # noqa: ASYNC110 - the peers have no event for it
            await asyncio.sleep(0)
        with pytest.raises(RankFailed, match=r"^Rank 2: /models is empty\.$") as failed:
            lead.peers.raise_if_failed()
    assert failed.value.reason == "ModelNotFound"


async def test_loss_of_a_starting_pod_raises_engine_lost() -> None:
    async with group() as (lead, [rank]):
        await run_in_worker_thread(lambda: lead.peers.start(lambda: None))
        await rank.order()
        rank.close()
        await lead.peers.wait_until_lost()
        with pytest.raises(EngineLost):
            lead.peers.raise_if_failed()
