"""A rank's execution of its leader's orders, and its answers."""

import asyncio
import dataclasses
import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gaudi_runtime.contract.report import Phase
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import LeaderEndpoint, Rank
from gaudi_runtime.engine_protocol.messages import LeaderMessage, MessageVerb, UpdateMessage
from gaudi_runtime.errors import EngineLost, ModelNotFound
from gaudi_runtime.group.follow import run_command_of_leader
from gaudi_runtime.process.worker import run_in_worker_thread
from tests.unit.runtime.group.ends import NO_TIMEOUTS, QUICK
from tests.unit.runtime.group.followed import IDLE, FollowingRank, Scripted, following_rank

pytestmark = QUICK

HERE = "10.0.0.7"


class Part:
    """A fake part of an engine that records its calls and is never lost."""

    def __init__(self) -> None:
        self.joined: list[LeaderEndpoint] = []
        self.watched, self.closed = asyncio.Event(), asyncio.Event()

    def report_fields(self) -> Mapping[str, object]:
        return {}

    def recipe_key(self) -> None:
        return None

    def join(self, meeting: LeaderEndpoint, progress: Progress) -> None:
        progress()
        self.joined.append(meeting)

    async def wait_until_lost(self) -> EngineLost:
        self.watched.set()
        await asyncio.Event().wait()
        raise AssertionError("an event that is never set")

    async def close(self) -> None:
        self.closed.set()


async def answer_to(rank: FollowingRank, verb: MessageVerb, *arguments: object) -> UpdateMessage:
    """Return a rank's answer to its first order."""
    await rank.leader.hello()
    rank.leader.send(LeaderMessage(verb=verb, arguments=arguments))
    return await rank.leader.update()


async def test_answer_names_its_verb() -> None:
    engine = Scripted(lambda verb, arguments, progress: [verb, *arguments])
    async with following_rank(engine) as rank:
        answer = await answer_to(rank, MessageVerb.ALLOCATE, 7)
    assert answer == UpdateMessage(done=MessageVerb.ALLOCATE, answer=["allocate", 7])


async def test_order_may_have_one_mebibyte() -> None:
    async with following_rank(Scripted(lambda verb, arguments, progress: len(arguments[0]))) as rank:
        assert (await answer_to(rank, MessageVerb.PLAN, "x" * 2**20)).answer == 2**20


@pytest.mark.parametrize(
    ("verb", "phase"),
    [
        (MessageVerb.LOAD, Phase.LOADING),
        (MessageVerb.PROFILE, Phase.PROFILING),
        (MessageVerb.ALLOCATE, Phase.ALLOCATING),
        (MessageVerb.WARM, Phase.COMPILING),
        (MessageVerb.SAMPLER, Phase.SAMPLER),
        (MessageVerb.DEFRAGMENTER, Phase.DEFRAGMENTER),
        (MessageVerb.CAPTURE, Phase.CAPTURING),
        (MessageVerb.MEMORY, Phase.STARTING),
        (MessageVerb.SERVE, Phase.STARTING),
    ],
)
async def test_report_of_a_rank_has_the_current_phase(verb: MessageVerb, phase: Phase) -> None:
    async with following_rank(Scripted(lambda *_: rank.board.report().phase)) as rank:
        assert (await answer_to(rank, verb)).answer == phase


@pytest.mark.parametrize(("verb", "phase"), [(MessageVerb.SERVE, Phase.SERVING), (MessageVerb.MEMORY, Phase.STARTING)])
async def test_only_the_serve_verb_sets_the_phase_to_serving(verb: MessageVerb, phase: Phase) -> None:
    async with following_rank() as rank:
        await answer_to(rank, verb)
        assert rank.board.report().phase is phase


async def test_failed_verb_is_answered_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    error = ModelNotFound("/models is empty.")

    def fail(*_: object) -> None:
        raise error

    async with following_rank(Scripted(fail)) as rank:
        answer = await answer_to(rank, MessageVerb.LOAD)
    assert answer.done is MessageVerb.LOAD
    assert answer.failure is not None
    assert answer.failure.reason == "ModelNotFound"
    [logged] = [each for each in caplog.records if each.getMessage() == "load failed: /models is empty."]
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


async def test_rank_runs_the_next_verb_after_a_failure() -> None:
    outcomes = iter([ZeroDivisionError("no room"), 5])

    def step(*_: object) -> object:
        if isinstance(outcome := next(outcomes), Exception):
            raise outcome
        return outcome

    async with following_rank(Scripted(step)) as rank:
        assert (await answer_to(rank, MessageVerb.CAPTURE)).failure is not None
        rank.leader.send(LeaderMessage(verb=MessageVerb.CAPTURE))
        assert await rank.leader.update() == UpdateMessage(done=MessageVerb.CAPTURE, answer=5)


async def test_engine_is_created_once_when_first_needed() -> None:
    made: list[Rank] = []

    def make() -> Rank:
        made.append(IDLE)
        return IDLE

    async with following_rank(make=make) as rank:
        assert await rank.leader.hello()
        assert made == []
        for verb in (MessageVerb.LOAD, MessageVerb.PROFILE):
            rank.leader.send(LeaderMessage(verb=verb))
            await rank.leader.update()
    assert made == [IDLE]


async def test_progress_of_a_verb_resets_the_stall_clock() -> None:
    now, began, go_on = [0.0], asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(verb: MessageVerb, arguments: Sequence[Any], progress: Progress) -> None:
        now[0] = 100.0
        progress()
        loop.call_soon_threadsafe(began.set)
        go_on.wait()

    async with following_rank(Scripted(work), clock=lambda: now[0]) as rank:
        assert await answer_to(rank, MessageVerb.WARM) == UpdateMessage(moved=True)
        await began.wait()
        assert rank.board.report().since_progress_seconds == 0
        go_on.set()


async def test_completed_verb_resets_the_stall_clock() -> None:
    now = [0.0]

    def work(*_: object) -> None:
        now[0] = 100.0

    async with following_rank(Scripted(work), clock=lambda: now[0]) as rank:
        await answer_to(rank, MessageVerb.MEMORY)
        assert rank.board.report().since_progress_seconds == 0


async def test_farewell_is_received_during_a_verb() -> None:
    began, go_on = threading.Event(), threading.Event()

    def work(*_: object) -> None:
        began.set()
        go_on.wait()

    async with following_rank(Scripted(work)) as rank:
        rank.leader.send(LeaderMessage(verb=MessageVerb.WARM))
        await run_in_worker_thread(began.wait)
        rank.leader.send(LeaderMessage(farewell=True))
        await rank.following
        go_on.set()


@pytest.mark.parametrize(("works", "moves"), [(itertools.repeat(0), 0), (itertools.chain([0], itertools.repeat(1)), 1)])
async def test_work_of_rank_processes_is_reported_as_progress(works: "itertools.repeat[int]", moves: int) -> None:
    async with following_rank(
        pace=dataclasses.replace(NO_TIMEOUTS, heartbeat_seconds=0.001), works=lambda: next(works)
    ) as rank:
        await rank.leader.hello()
        updates = [await rank.leader.update() for _ in range(10)]
    assert sum(update.moved for update in updates) == moves


def test_load_verb_starts_the_engine_processes_of_this_pod() -> None:
    """The leader's engine sends the later verbs to vLLM's own processes."""
    part, moved = Part(), list[int]()
    orders: list[tuple[MessageVerb, list[Any]]] = [(MessageVerb.LOAD, [HERE, 4567]), (MessageVerb.SERVE, [])]
    answers = [run_command_of_leader(part, verb, arguments, lambda: moved.append(1)) for verb, arguments in orders]
    assert (part.joined, answers, moved) == ([LeaderEndpoint(HERE, 4567)], [None, None], [1])


async def test_engine_processes_of_a_rank_are_watched_after_they_joined() -> None:
    part = Part()
    async with following_rank(part) as rank:
        await answer_to(rank, MessageVerb.LOAD, HERE, 4567)
        await part.watched.wait()
    assert part.joined == [LeaderEndpoint(HERE, 4567)]


async def test_engine_processes_of_a_rank_end_with_the_farewell() -> None:
    part = Part()
    async with following_rank(part) as rank:
        await answer_to(rank, MessageVerb.LOAD, HERE, 4567)
        rank.leader.send(LeaderMessage(farewell=True))
        await rank.following
        assert part.closed.is_set()


async def test_engine_without_other_processes_is_not_watched() -> None:
    async with following_rank() as rank:
        assert (await answer_to(rank, MessageVerb.LOAD)).done is MessageVerb.LOAD
