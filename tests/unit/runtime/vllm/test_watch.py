"""Death and hang of vLLM while it serves, and the counts of its workers."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from typing import Any

import pytest

from gaudi_runtime.engines.vllm import watch
from gaudi_runtime.engines.vllm.ranks import Ranks
from gaudi_runtime.engines.vllm.watch import Watch
from tests.unit.runtime.vllm.fake_vllm import Answers, EngineDeadError, FakeVllm, never

LONG = 60.0
MET = {"met": [["decode", 1, 1, 1, 5]], "compiled": []}


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"LOOK_SECONDS": 0.01, "ASK_SECONDS": 0.01, "HANG_SECONDS": 0.1}.items():
        monkeypatch.setattr(watch, name, seconds)


def beat(monkeypatch: pytest.MonkeyPatch, pulses: Iterator[int]) -> None:
    monkeypatch.setattr(watch, "pulse", lambda: next(pulses))


async def lost(engine: FakeVllm, absorb: Callable[[Any], None] = lambda counts: None, longest: float = LONG) -> str:
    """The sentence of the end; a watch that never ends fails the test."""
    watching = Watch(engine, Ranks(engine, asyncio.get_running_loop()), absorb, longest)
    return str(await asyncio.wait_for(watching.until_lost(), LONG))


async def test_a_death_between_two_looks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, count())

    async def reply(verb: str) -> Answers:
        if engine.errored:
            raise EngineDeadError
        engine.errored = len(engine.calls) == 3
        return [{"answer": MET}]

    engine = FakeVllm(reply)
    assert await lost(engine) == "A process of vLLM died while it served: its log says more."


async def test_a_death_while_it_is_asked_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, count())

    async def reply(verb: str) -> Answers:
        engine.errored = True
        return await never()

    engine = FakeVllm(reply)
    assert await lost(engine) == "A process of vLLM died while it served: its log says more."


async def test_processes_that_neither_answer_nor_work_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, repeat(7))
    assert (await lost(FakeVllm(never))).startswith("vLLM hangs: it neither answered nor worked for")


async def test_processes_that_worked_and_then_stand_still_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, chain(range(3), repeat(7)))
    assert (await lost(FakeVllm(never))).startswith("vLLM hangs: it neither answered nor worked for")


async def test_a_late_answer_of_processes_that_work_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers once it was looked at so often that a hang would have been seen."""
    loop, late, absorbed = asyncio.get_running_loop(), asyncio.Event(), list[Any]()

    def looks() -> Iterator[int]:
        for look in count():
            if look == 30:
                loop.call_soon_threadsafe(late.set)
            yield look

    beat(monkeypatch, looks())

    async def reply(verb: str) -> Answers:
        if absorbed:
            engine.errored = True
            return await never()
        await late.wait()
        return [{"answer": MET}]

    engine = FakeVllm(reply)
    assert "died" in await lost(engine, absorbed.append)
    assert absorbed == [MET]


async def test_no_step_exceeds_the_deadline_even_if_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, count())
    assert (await lost(FakeVllm(never), longest=0.05)).startswith("vLLM gave no answer to counters within")


async def test_counts_of_the_first_rank_are_taken_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, count())
    absorbed: list[Any] = []

    async def reply(verb: str) -> Answers:
        if len(absorbed) == 2:
            engine.errored = True
        return [{"answer": {**MET, "look": len(absorbed)}}, {"answer": "of another rank"}]

    engine = FakeVllm(reply)
    await lost(engine, absorbed.append)
    assert [each["look"] for each in absorbed][:2] == [0, 1]
    assert {verb for verb, _ in engine.calls} == {"counters"}


async def test_rank_that_fails_to_count_ends_watch_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    beat(monkeypatch, count())

    async def reply(verb: str) -> Answers:
        return [{"reason": "Crashed", "message": "KeyError: 'a'"}]

    assert await lost(FakeVllm(reply)) == "Rank 0 failed at counters: KeyError: 'a'"


async def test_a_late_answer_while_other_pods_work_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes here wait for those there."""
    beat(monkeypatch, repeat(7))
    looks = count()

    def moves() -> int:
        engine.errored = (look := next(looks)) == 30
        return look

    engine = FakeVllm(never)
    watching = Watch(engine, Ranks(engine, asyncio.get_running_loop()), lambda counts: None, LONG, moves)
    told = str(await asyncio.wait_for(watching.until_lost(), LONG))
    assert told == "A process of vLLM died while it served: its log says more."
