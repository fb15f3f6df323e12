"""What a rank does of what its leader orders, and what it tells of it."""

import asyncio
import dataclasses
import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gaudi_runtime.contract.report import Phase
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import Meeting, Rank
from gaudi_runtime.engine_protocol.messages import LeaderMessage, Update, Verb
from gaudi_runtime.errors import EngineLost, ModelNotFound
from gaudi_runtime.group.follow import run_engine_command
from gaudi_runtime.process.worker import in_worker_thread
from tests.unit.runtime.group.ends import PATIENT, QUICK
from tests.unit.runtime.group.followed import IDLE, Followed, Scripted, followed

pytestmark = QUICK

HERE = "10.0.0.7"


class Part:
    """Keeps what was asked of it; it is never lost."""

    def __init__(self) -> None:
        self.joined: list[Meeting] = []
        self.watched, self.closed = asyncio.Event(), asyncio.Event()

    def report_fields(self) -> Mapping[str, object]:
        return {}

    def recipe_key(self) -> None:
        return None

    def join(self, meeting: Meeting, progress: Progress) -> None:
        progress()
        self.joined.append(meeting)

    async def until_lost(self) -> EngineLost:
        self.watched.set()
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets")

    async def close(self) -> None:
        self.closed.set()


async def ordered(rank: Followed, verb: Verb, *arguments: object) -> Update:
    """What a rank answers to its first order."""
    await rank.leader.hello()
    rank.leader.say(LeaderMessage(verb=verb, arguments=arguments))
    return await rank.leader.update()


async def test_answer_names_its_verb() -> None:
    engine = Scripted(lambda verb, arguments, progress: [verb, *arguments])
    async with followed(engine) as rank:
        answer = await ordered(rank, Verb.ALLOCATE, 7)
    assert answer == Update(done=Verb.ALLOCATE, answer=["allocate", 7])


async def test_order_may_be_longer_than_usual_lines() -> None:
    async with followed(Scripted(lambda verb, arguments, progress: len(arguments[0]))) as rank:
        assert (await ordered(rank, Verb.PLAN, "x" * 2**20)).answer == 2**20


@pytest.mark.parametrize(
    ("verb", "phase"),
    [
        (Verb.LOAD, Phase.LOADING),
        (Verb.PROFILE, Phase.PROFILING),
        (Verb.ALLOCATE, Phase.ALLOCATING),
        (Verb.WARM, Phase.COMPILING),
        (Verb.SAMPLER, Phase.SAMPLER),
        (Verb.DEFRAGMENTER, Phase.DEFRAGMENTER),
        (Verb.CAPTURE, Phase.CAPTURING),
        (Verb.MEMORY, Phase.STARTING),
        (Verb.SERVE, Phase.STARTING),
    ],
)
async def test_report_of_a_rank_says_what_it_is_at(verb: Verb, phase: Phase) -> None:
    async with followed(Scripted(lambda *_: rank.board.report().phase)) as rank:
        assert (await ordered(rank, verb)).answer == phase


@pytest.mark.parametrize(("verb", "phase"), [(Verb.SERVE, Phase.SERVING), (Verb.MEMORY, Phase.STARTING)])
async def test_rank_serves_once_its_engine_does(verb: Verb, phase: Phase) -> None:
    async with followed() as rank:
        await ordered(rank, verb)
        assert rank.board.report().phase is phase


async def test_verb_that_fails_is_answered_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    error = ModelNotFound("/models is empty.")

    def fail(*_: object) -> None:
        raise error

    async with followed(Scripted(fail)) as rank:
        answer = await ordered(rank, Verb.LOAD)
    assert answer.done is Verb.LOAD
    assert answer.failure is not None
    assert answer.failure.reason == "ModelNotFound"
    [logged] = [each for each in caplog.records if each.getMessage() == "load failed: /models is empty."]
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


async def test_rank_that_failed_a_verb_does_the_next() -> None:
    outcomes = iter([ZeroDivisionError("no room"), 5])

    def step(*_: object) -> object:
        if isinstance(outcome := next(outcomes), Exception):
            raise outcome
        return outcome

    async with followed(Scripted(step)) as rank:
        assert (await ordered(rank, Verb.CAPTURE)).failure is not None
        rank.leader.say(LeaderMessage(verb=Verb.CAPTURE))
        assert await rank.leader.update() == Update(done=Verb.CAPTURE, answer=5)


async def test_engine_is_made_once_and_only_when_it_is_needed() -> None:
    made: list[Rank] = []

    def make() -> Rank:
        made.append(IDLE)
        return IDLE

    async with followed(make=make) as rank:
        assert await rank.leader.hello()
        assert made == []
        for verb in (Verb.LOAD, Verb.PROFILE):
            rank.leader.say(LeaderMessage(verb=verb))
            await rank.leader.update()
    assert made == [IDLE]


async def test_progress_of_a_verb_is_told_and_is_no_standstill() -> None:
    now, began, go_on = [0.0], asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(verb: Verb, arguments: Sequence[Any], progress: Progress) -> None:
        now[0] = 100.0
        progress()
        loop.call_soon_threadsafe(began.set)
        go_on.wait()

    async with followed(Scripted(work), clock=lambda: now[0]) as rank:
        assert await ordered(rank, Verb.WARM) == Update(moved=True)
        await began.wait()
        assert rank.board.report().since_progress_seconds == 0
        go_on.set()


async def test_verb_that_is_done_is_no_standstill() -> None:
    now = [0.0]

    def work(*_: object) -> None:
        now[0] = 100.0

    async with followed(Scripted(work), clock=lambda: now[0]) as rank:
        await ordered(rank, Verb.MEMORY)
        assert rank.board.report().since_progress_seconds == 0


async def test_farewell_is_heard_in_the_middle_of_a_verb() -> None:
    began, go_on = threading.Event(), threading.Event()

    def work(*_: object) -> None:
        began.set()
        go_on.wait()

    async with followed(Scripted(work)) as rank:
        rank.leader.say(LeaderMessage(verb=Verb.WARM))
        await in_worker_thread(began.wait)
        rank.leader.say(LeaderMessage(farewell=True))
        await rank.following
        go_on.set()


@pytest.mark.parametrize(("works", "moves"), [(itertools.repeat(0), 0), (itertools.chain([0], itertools.repeat(1)), 1)])
async def test_rank_moves_each_time_its_processes_have_worked(works: "itertools.repeat[int]", moves: int) -> None:
    async with followed(pace=dataclasses.replace(PATIENT, beat=0.001), works=lambda: next(works)) as rank:
        await rank.leader.hello()
        updates = [await rank.leader.update() for _ in range(10)]
    assert sum(update.moved for update in updates) == moves


def test_pod_of_engine_that_spans_pods_only_starts_its_part() -> None:
    """What the leader's engine does afterwards reaches its processes without us."""
    part, moved = Part(), list[int]()
    orders: list[tuple[Verb, list[Any]]] = [(Verb.LOAD, [HERE, 4567]), (Verb.SERVE, [])]
    answers = [run_engine_command(part, verb, arguments, lambda: moved.append(1)) for verb, arguments in orders]
    assert (part.joined, answers, moved) == ([Meeting(HERE, 4567)], [None, None], [1])


async def test_part_of_an_engine_is_watched_once_it_has_joined() -> None:
    part = Part()
    async with followed(part) as rank:
        await ordered(rank, Verb.LOAD, HERE, 4567)
        await part.watched.wait()
    assert part.joined == [Meeting(HERE, 4567)]


async def test_part_of_an_engine_ends_with_the_farewell() -> None:
    part = Part()
    async with followed(part) as rank:
        await ordered(rank, Verb.LOAD, HERE, 4567)
        rank.leader.say(LeaderMessage(farewell=True))
        await rank.following
        assert part.closed.is_set()


async def test_engine_that_has_no_other_processes_is_not_watched() -> None:
    async with followed() as rank:
        assert (await ordered(rank, Verb.LOAD)).done is Verb.LOAD
