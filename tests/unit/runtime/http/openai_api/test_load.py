"""Full servers, client disconnects, and the closing mode."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable

import openai
import pytest
from starlette.types import Message

from gaudi_runtime.contract.report import RequestCountsReport
from gaudi_runtime.engines.sim.app import SimEventStream
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served

SLOW = {"tokensPerSecond": 5}
ENDLESS = {"max_tokens": 400, "extra_body": {"ignore_eos": True}}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the engine has no event for it
            await asyncio.sleep(0.01)


async def endless_stream(api: Served) -> openai.AsyncStream[openai.types.Completion]:
    return await api.openai.completions.create(model="echo", prompt="abc", stream=True, **ENDLESS)


async def test_full_queue_is_answered_with_429_and_retry_after() -> None:
    async with served(sim_config(SLOW, max_num_seqs=1, serving={"max_queued_requests": 1})) as api:
        first, second = await endless_stream(api), await endless_stream(api)
        await until(lambda: (api.engine.current_load().running, api.engine.current_load().waiting) == (1, 1))
        with pytest.raises(openai.RateLimitError) as refused:
            await api.openai.completions.create(model="echo", prompt="abc")
        assert refused.value.response.headers["retry-after"] == "1"
        assert refused.value.code == "queue_full"
        await first.close()
        await until(lambda: api.engine.current_load().waiting == 0)
        await second.close()
        await until(lambda: api.engine.current_load().running == 0)
        answer = await api.openai.completions.create(model="echo", prompt="a")
        assert answer.choices[0].text == "a"


async def test_closing_a_stream_frees_its_sequence_and_its_blocks() -> None:
    async with served(sim_config(SLOW)) as api:
        stream = await endless_stream(api)
        await anext(stream)
        assert (api.engine.current_load().running, api.engine.current_load().used_blocks) == (1, 4)
        await stream.close()
        await until(lambda: (api.engine.current_load().running, api.engine.current_load().used_blocks) == (0, 0))


async def test_broken_stream_ends_its_generation_immediately() -> None:
    ended = threading.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"data: {}\n\n"
        finally:
            ended.set()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise ConnectionError

    events = endless()
    with pytest.raises(ConnectionError):
        await SimEventStream(events).stream_response(send)
    assert ended.is_set()


async def test_disconnect_frees_the_sequence_of_a_whole_answer() -> None:
    async with served(sim_config(SLOW)) as api:
        request = asyncio.create_task(api.openai.completions.create(model="echo", prompt="abc", **ENDLESS))
        await until(lambda: api.engine.current_load().running == 1)
        request.cancel()
        await until(lambda: api.engine.current_load().running == 0)
        await until(lambda: api.metric("gaudi_requests_total", endpoint="/v1/completions", code="499") == 1)


async def test_requests_above_max_num_seqs_are_all_answered() -> None:
    async with served(sim_config(max_num_seqs=2)) as api:
        answers = await asyncio.gather(
            *(api.openai.completions.create(model="echo", prompt=f"request {number}") for number in range(20))
        )
        assert [answer.choices[0].text for answer in answers] == [f"request {number}" for number in range(20)]


async def test_every_answer_ends_its_connection_while_closing(api: Served) -> None:
    assert "connection" not in (await api.http.get("/v1/models")).headers
    api.closing.append(True)
    answer = await api.http.get("/v1/models")
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert answer.headers["content-type"] == "application/json"
    refused = await api.http.post("/v1/completions", json={})
    assert (refused.status_code, refused.headers["connection"]) == (400, "close")


async def test_failing_engine_is_a_server_error_and_frees_its_place() -> None:
    async with served(sim_config({"failAtToken": 3}, max_num_seqs=1, serving={"max_queued_requests": 0})) as api:
        for _ in range(2):
            with pytest.raises(openai.InternalServerError, match="The simulated engine failed"):
                await api.openai.completions.create(model="echo", prompt="abc")
        assert api.metrics.request_counts() == RequestCountsReport(answered=2, failed=2)
        assert api.metric("gaudi_requests_total", endpoint="/v1/completions", code="500") == 2


async def test_engine_failure_ends_the_stream_with_an_error_event() -> None:
    async with served(sim_config({"failAtToken": 3})) as api:
        stream = await api.openai.completions.create(model="echo", prompt="abc", stream=True)
        texts: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                texts.append(chunk.choices[0].text)

        with pytest.raises(openai.APIError, match="failed during this answer"):
            await read()
        assert texts == ["a", "b"]
        assert api.metrics.request_counts() == RequestCountsReport(answered=1, failed=1)


async def test_failed_stream_ends_with_an_error_event_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    body = {"model": "echo", "prompt": "abc", "stream": True}
    async with served(sim_config({"failAtToken": 3})) as api:
        answer = await api.http.post("/v1/completions", json=body)
    [*_, last] = answer.text.rstrip().split("\n\n")
    error = {
        "message": "The server failed during this answer.",
        "type": "server_error",
        "param": None,
    }
    assert json.loads(last.removeprefix("data: ")) == {"error": error | {"code": None}}
    assert "A streamed answer failed after its first event." in caplog.messages


async def test_failed_answer_does_not_contain_the_reason() -> None:
    async with served(sim_config({"failAtToken": 1})) as api:
        answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "abc"})
    error = {
        "message": "The simulated engine failed.",
        "type": "server_error",
        "param": None,
    }
    assert (answer.status_code, answer.json()) == (500, {"error": error | {"code": None}})


async def test_request_is_reported_as_running_until_its_answer_ended() -> None:
    async with served(sim_config(SLOW)) as api:
        stream = await endless_stream(api)
        await anext(stream)
        await api.http.get("/v1/models")
        assert api.metrics.request_counts() == RequestCountsReport(running=1, answered=1)
        assert api.metric("gaudi_requests_running") == 1
        await stream.close()
        await until(lambda: api.metrics.request_counts() == RequestCountsReport(answered=1))


async def test_refused_request_is_not_counted_as_failed(api: Served) -> None:
    await api.http.post("/v1/completions", json={})
    assert api.metrics.request_counts() == RequestCountsReport(answered=1)
