"""Detection of a dead or hanging vLLM during serving, and the counters of vLLM's workers."""

import asyncio
import os
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gaudi_runtime.engines.vllm.ranks import ErrorNote, Ranks, dead_engine_error
from gaudi_runtime.engines.vllm.watch import PACE, Pace, Watch
from tests.unit.runtime.engines.vllm.fake_vllm import Answers, EngineDeadError, FakeVllm, never
from tests.world.loop import Loop

LONG = 60.0
DIED = str(dead_engine_error(SimpleNamespace(), "while it served"))
HANGS = "vLLM hangs: it neither answered nor worked for"
FAST = Pace(poll_interval=0.01, check_interval=0.01, hang_timeout=0.1)
MET = {"met": [["decode", [1, 1, 1], None, 5, 0]]}


def never_moves() -> int:
    return 0


async def watch_until_lost(
    engine: FakeVllm,
    absorb: Callable[[Any], None] = lambda counts: None,
    longest: float = LONG,
    *,
    pulses: Iterator[int],
    moves: Callable[[], int] = never_moves,
    note: ErrorNote | None = None,
    pace: Pace = FAST,
) -> str:
    """Watch an engine until it is lost, and return the message. The test fails if the watch never ends."""
    ranks = Ranks(engine, asyncio.get_running_loop(), note=note)
    watching = Watch(engine, ranks, absorb, longest, moves, pace, lambda: next(pulses))
    return str(await asyncio.wait_for(watching.wait_until_lost(), max(LONG, longest)))


async def test_death_between_two_polls_is_detected() -> None:

    async def reply(verb: str) -> Answers:
        if engine.errored:
            raise EngineDeadError
        engine.errored = len(engine.calls) == 3
        return [{"answer": MET}]

    engine = FakeVllm(reply)
    assert await watch_until_lost(engine, pulses=count()) == DIED


async def test_death_during_a_poll_is_detected() -> None:

    async def reply(verb: str) -> Answers:
        engine.errored = True
        return await never()

    engine = FakeVllm(reply)
    assert await watch_until_lost(engine, pulses=count()) == DIED


async def test_death_is_reported_with_the_note_of_a_rank(tmp_path: Path) -> None:
    note = ErrorNote(os.getpid(), str(tmp_path))

    async def reply(verb: str) -> Answers:
        note.write(1, "prompt shape (1, 512, 4) was not warmed up")
        engine.errored = True
        return await never()

    engine = FakeVllm(reply)
    assert "(rank 1 reported that prompt shape (1, 512, 4) was not warmed up)" in await watch_until_lost(
        engine, pulses=count(), note=note
    )


async def test_processes_that_neither_answer_nor_work_are_hanging() -> None:
    assert (await watch_until_lost(FakeVllm(never), pulses=repeat(7))).startswith(HANGS)


async def test_processes_that_stop_working_are_hanging() -> None:
    assert (await watch_until_lost(FakeVllm(never), pulses=chain(range(3), repeat(7)))).startswith(HANGS)


def test_hang_is_counted_from_the_last_work_on() -> None:
    """The processes work every 20 seconds, which is below the timeout of 30 seconds, and stop after 200 seconds."""
    loop = Loop()
    pulses = (int(min(loop.time(), 200) // 20) for _ in count())
    lost = watch_until_lost(FakeVllm(never), longest=3600, pulses=pulses, pace=PACE)
    try:
        assert loop.run_until_complete(lost).startswith(HANGS)
        assert 230 <= loop.time() <= 232
    finally:
        loop.close()


async def test_late_answer_of_working_processes_is_no_hang() -> None:
    """The answer comes after so many polls that the watch would report a hang if the processes were idle."""
    loop, late, absorbed = asyncio.get_running_loop(), asyncio.Event(), list[Any]()

    def looks() -> Iterator[int]:
        for look in count():
            if look == 30:
                loop.call_soon_threadsafe(late.set)
            yield look

    async def reply(verb: str) -> Answers:
        if absorbed:
            engine.errored = True
            return await never()
        await late.wait()
        return [{"answer": MET}]

    engine = FakeVllm(reply)
    assert "died" in await watch_until_lost(engine, absorbed.append, pulses=looks())
    assert absorbed == [MET]


async def test_working_processes_must_answer_within_the_deadline() -> None:
    assert " counters within " in await watch_until_lost(FakeVllm(never), longest=0.05, pulses=count())


async def test_counters_of_the_first_rank_are_read_at_every_poll() -> None:
    absorbed: list[Any] = []

    async def reply(verb: str) -> Answers:
        if len(absorbed) == 2:
            engine.errored = True
        return [{"answer": {**MET, "look": len(absorbed)}}, {"answer": "of another rank"}]

    engine = FakeVllm(reply)
    await watch_until_lost(engine, absorbed.append, pulses=count())
    assert [each["look"] for each in absorbed][:2] == [0, 1]
    assert {verb for verb, _ in engine.calls} == {"counters"}


async def test_failing_counters_end_the_watch_with_the_message() -> None:

    async def reply(verb: str) -> Answers:
        return [{"reason": "Crashed", "message": "KeyError: 'a'"}]

    assert (
        await watch_until_lost(FakeVllm(reply), pulses=count())
        == "Rank 0 failed during the call counters: KeyError: 'a'"
    )


async def test_late_answer_while_other_pods_work_is_no_hang() -> None:
    """The processes of this pod wait for the processes of the other pods."""
    looks = count()

    def moves() -> int:
        engine.errored = (look := next(looks)) == 30
        return look

    engine = FakeVllm(never)
    message = await watch_until_lost(engine, pulses=repeat(7), moves=moves)
    assert message == DIED
