"""Calls to all ranks have our own deadline: missing answers, death and late answers raise EngineLost."""

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.engines.vllm.ranks import ErrorNote, Ranks, describe_call
from gaudi_runtime.errors import EngineLost, EngineUnsupported, RankFailed
from tests.unit.runtime.engines.vllm.fake_vllm import Answers, EngineDeadError, FakeVllm, echo, never

LONG = 60.0
"""A deadline in seconds that no test reaches."""


def call_verb(engine: FakeVllm) -> Ranks:
    return Ranks(engine, asyncio.get_running_loop(), poll_seconds=0.01)


async def from_thread(engine: FakeVllm, verb: str, *arguments: Any, deadline: float = LONG) -> list[Any]:
    """Call a verb from another thread, as start-up does in its worker thread."""
    return await asyncio.to_thread(call_verb(engine).call, verb, *arguments, deadline=deadline)


async def test_verb_is_sent_to_all_ranks_with_its_arguments() -> None:
    engine = FakeVllm(echo)
    assert await from_thread(engine, "warm", "prompt", [1, 128, 0]) == [["warm", "prompt", [1, 128, 0]]] * 2
    assert engine.calls == [("warm", ["prompt", [1, 128, 0]])]


async def test_verb_can_be_called_on_the_event_loop() -> None:
    assert await call_verb(FakeVllm(echo)).call_async("memory", deadline=LONG) == [["memory"], ["memory"]]


async def test_missed_deadline_raises_engine_lost_with_the_bucket() -> None:
    with pytest.raises(EngineLost, match=r"^vLLM did not answer the call warm prompt \(1, 128, 0\) within 0 s\.$"):
        await from_thread(FakeVllm(never), "warm", "prompt", [1, 128, 0], deadline=0.02)


async def test_missed_deadline_names_the_rank_that_left_a_note(tmp_path: Path) -> None:
    loop, note = asyncio.get_running_loop(), ErrorNote(1, str(tmp_path))
    note.write(1, "the device ran out of memory at prompt bucket (1, 128, 0)")
    message = (
        r"^vLLM did not answer the call warm prompt \(1, 128, 0\) within 0 s: rank 1 reported that the device ran out "
        r"of memory at prompt bucket \(1, 128, 0\)\. The other ranks wait for this rank\.$"
    )
    with pytest.raises(EngineLost, match=message):
        await Ranks(FakeVllm(never), loop, note=note).call_async("warm", "prompt", [1, 128, 0], deadline=0.02)


async def test_note_is_discarded_after_all_ranks_answered(tmp_path: Path) -> None:
    note = ErrorNote(1, str(tmp_path))
    note.write(1, "it ran out of memory")
    await Ranks(FakeVllm(echo), asyncio.get_running_loop(), note=note).call_async("memory", deadline=LONG)
    assert note.read() is None


async def test_failed_rank_raises_an_error_with_its_reason() -> None:
    async def reply(verb: str) -> Answers:
        return [{"answer": 1}, {"reason": "ConfigInvalid", "message": "no buckets."}]

    with pytest.raises(RankFailed, match=r"^Rank 1 failed during the call describe: no buckets\.$") as failed:
        await from_thread(FakeVllm(reply), "describe")
    assert failed.value.reason == "ConfigInvalid"


async def test_death_is_detected_while_waiting_for_an_answer() -> None:
    async def reply(verb: str) -> Answers:
        engine.errored = True
        return await never()

    engine = FakeVllm(reply)
    with pytest.raises(EngineLost, match="died during the call plan: "):
        await from_thread(engine, "plan")


async def test_dead_engine_raises_engine_lost() -> None:
    async def reply(verb: str) -> Answers:
        raise EngineDeadError("EngineCore encountered an issue.")

    with pytest.raises(EngineLost, match="EngineCore encountered an issue"):
        await from_thread(FakeVllm(reply), "plan")


async def test_abandoned_call_is_cancelled() -> None:
    gone = asyncio.Event()

    async def reply(verb: str) -> Answers:
        try:
            return await never()
        finally:
            gone.set()

    engine = FakeVllm(reply)
    calling = asyncio.create_task(from_thread(engine, "plan"))
    await engine.asked.wait()
    engine.errored = True
    with pytest.raises(EngineLost):
        await calling
    await asyncio.wait_for(gone.wait(), LONG)


async def test_late_answer_is_not_used_for_the_next_call() -> None:
    late: list[asyncio.Future[Answers]] = []

    async def reply(verb: str) -> Answers:
        if verb == "slow":
            late.append(asyncio.get_running_loop().create_future())
            return await asyncio.shield(late[0])
        late[0].set_result([{"answer": "late"}])
        return [{"answer": "mine"}]

    engine = FakeVllm(reply)
    with pytest.raises(EngineLost):
        await from_thread(engine, "slow", deadline=0.02)
    assert await from_thread(engine, "memory") == ["mine"]


async def test_end_of_the_event_loop_ends_the_call() -> None:
    engine = FakeVllm(never)
    calling = asyncio.create_task(from_thread(engine, "plan"))
    await engine.asked.wait()
    [task] = [each for each in asyncio.all_tasks() if "Ranks.call_async" in repr(each.get_coro())]
    task.cancel()
    with pytest.raises(EngineLost, match="The event loop ended during the call plan"):
        await calling


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("memory",), "memory"),
        (("warm", "prompt", [1, 128, 0]), "warm prompt (1, 128, 0)"),
        (("sampler", 4), "sampler 4"),
    ],
)
def test_description_of_a_call_has_the_verb_and_arguments(words: tuple[Any, ...], text: str) -> None:
    assert describe_call(*words) == text


def ranks_over_cores(engine: FakeVllm, cores: int = 2) -> Ranks:
    return Ranks(engine, asyncio.get_running_loop(), cores=cores)


async def test_verb_is_sent_to_all_cores_concurrently() -> None:
    """Each core answers only after the other core was called, as in a collective."""
    called = asyncio.Barrier(2)

    async def answer_after_both_calls(number: int, *_: Any) -> Answers:
        await called.wait()
        return [{"answer": number}]

    engine = FakeVllm(partial(answer_after_both_calls, 0), partial(answer_after_both_calls, 1))
    assert await ranks_over_cores(engine).call_async("describe", deadline=LONG) == [0, 1]


async def test_answers_are_grouped_by_core() -> None:
    answers = await ranks_over_cores(FakeVllm(echo, echo)).call_cores("memory", deadline=LONG)
    assert answers == [[["memory"], ["memory"]]] * 2


async def test_unresponsive_core_raises_engine_lost_with_its_number() -> None:
    with pytest.raises(EngineLost, match=r"^Engine core 1 of vLLM did not answer the call memory within 0 s\.$"):
        await ranks_over_cores(FakeVllm(echo, never)).call_async("memory", deadline=0.02)


async def test_ranks_are_numbered_over_all_cores() -> None:
    async def reply(verb: str) -> Answers:
        return [{"answer": 1}, {"reason": "ConfigInvalid", "message": "no buckets."}]

    with pytest.raises(RankFailed, match=r"^Rank 3 failed during the call memory: no buckets\.$"):
        await ranks_over_cores(FakeVllm(echo, reply)).call_async("memory", deadline=LONG)


async def test_failed_call_to_a_core_does_not_wait_for_others() -> None:
    async def reply(verb: str) -> Answers:
        raise OSError("the socket is closed")

    with pytest.raises(EngineLost, match=r"^The call memory to vLLM failed: OSError: the socket is closed$"):
        await ranks_over_cores(FakeVllm(never, reply)).call_async("memory", deadline=LONG)


@pytest.mark.parametrize("name", ["core_engines", "_call_utility_async"])
async def test_client_without_a_name_for_several_cores_is_unsupported(name: str) -> None:
    engine = FakeVllm(echo, echo)
    client = {each: None for each in ("core_engines", "_call_utility_async") if each != name}
    engine.engine_core = SimpleNamespace(**client)  # type: ignore[assignment]
    with pytest.raises(EngineUnsupported, match=f"has no .*{name}.*set spec.parallelism.data to 1"):
        ranks_over_cores(engine)


async def test_other_number_of_cores_than_planned_is_unsupported() -> None:
    with pytest.raises(EngineUnsupported, match=r"^vLLM started 2 engine cores, but spec.parallelism.data is 3. "):
        ranks_over_cores(FakeVllm(echo, echo), cores=3)
