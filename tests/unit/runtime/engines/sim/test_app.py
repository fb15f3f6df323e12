"""The OpenAI application of the sim engine, with the real openai client. It echoes the prompt, a token per byte."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served

HELLO: Any = [{"role": "user", "content": "hi"}]
ECHO = "user: hi\nassistant:"
CHAT = {"model": "echo", "messages": HELLO, "max_tokens": 4}


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Served]:
    """A model port whose engine answers without delay."""
    async with served(sim_config()) as running:
        yield running


async def response_bodies(api: Served, path: str, **body: Any) -> list[dict[str, Any]]:
    """Return the body, or one body per event of a stream, without the fields that differ in every response."""
    answer = await api.http.post(path, json=body)
    texts = [line.removeprefix("data: ") for line in answer.text.splitlines() if line not in ("", "data: [DONE]")]
    bodies = [json.loads(text) for text in texts]
    prefix = "chatcmpl-" if path.endswith("chat/completions") else "cmpl-"
    for each in bodies:
        assert each.pop("id").startswith(prefix)
        assert isinstance(each.pop("created"), int)
    return bodies


async def refusal(api: Served, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "a"} | body)
    return answer.status_code, answer.json()["error"]


async def test_text_completion_has_every_field_of_openai(api: Served) -> None:
    [body] = await response_bodies(api, "/v1/completions", model="echo", prompt="ab")
    assert body == {
        "model": "echo",
        "object": "text_completion",
        "choices": [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4},
    }


async def test_chat_completion_has_every_field_of_openai(api: Served) -> None:
    [body] = await response_bodies(api, "/v1/chat/completions", **CHAT)
    message = {"role": "assistant", "content": "user"}
    assert body == {
        "model": "echo",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 19, "completion_tokens": 4, "total_tokens": 23},
    }


async def test_chunks_of_text_have_every_field_of_openai(api: Served) -> None:
    options = {"include_usage": True}
    chunks = await response_bodies(
        api, "/v1/completions", model="echo", prompt="a", stream=True, stream_options=options
    )
    common = {"model": "echo", "object": "text_completion"}
    *pieces, last = chunks
    choice = {"index": 0, "text": "a", "logprobs": None, "finish_reason": "stop"}
    assert pieces == [common | {"choices": [choice], "usage": None}]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    assert last == common | {"choices": [], "usage": usage}


async def test_chunks_of_a_chat_have_every_field_of_openai(api: Served) -> None:
    chunks = await response_bodies(api, "/v1/chat/completions", **CHAT | {"max_tokens": 1}, stream=True)
    common = {"model": "echo", "object": "chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}, {"content": "u"}]
    assert chunks == [
        common | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}
        for delta, reason in zip(deltas, (None, "length"), strict=True)
    ]


async def test_models_lists_every_served_name(api: Served) -> None:
    models = await api.openai.models.list()
    assert [model.id for model in models.data] == ["echo", "echo-alias"]
    alone = (await api.http.get("/v1/models/echo-alias")).json()
    assert isinstance(alone.pop("created"), int)
    assert alone == {"id": "echo-alias", "object": "model", "owned_by": "gaudi-runtime"}


async def test_health_is_ok(api: Served) -> None:
    assert (await api.http.get("/health")).json() == {"status": "ok"}


async def test_whole_chat_answer_echoes_the_conversation(api: Served) -> None:
    answer = await api.openai.chat.completions.create(model="echo", messages=HELLO)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (ECHO, "stop")


async def test_max_completion_tokens_has_precedence_over_max_tokens(api: Served) -> None:
    answer = await api.openai.chat.completions.create(
        model="echo", messages=HELLO, max_completion_tokens=4, max_tokens=9
    )
    assert answer.choices[0].message.content == "user"


@pytest.mark.parametrize("prompt", ["abc", [97, 98, 99]])
async def test_text_and_token_ids_return_the_same_completion(api: Served, prompt: str | list[int]) -> None:
    answer = await api.openai.completions.create(model="echo-alias", prompt=prompt)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("abc", "stop")


async def test_default_length_of_completions_is_sixteen_tokens(api: Served) -> None:
    answer = await api.openai.completions.create(model="echo", prompt="x" * 40)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("x" * 16, "length")


async def test_ignore_eos_generates_up_to_the_last_token(api: Served) -> None:
    answer = await api.openai.completions.create(
        model="echo", prompt="abc", max_tokens=7, extra_body={"ignore_eos": True}
    )
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("abcabca", "length")


async def test_answer_without_a_token_limit_is_limited_by_the_cache() -> None:
    small = {"deviceMemoryBytes": 2**30, "weightBytes": 0, "blockBytes": 2**28, "graphBytesPerToken": 1}
    async with served(sim_config(small)) as api:
        assert api.engine.current_load().total_blocks == 3
        answer = await api.openai.chat.completions.create(model="echo", messages=HELLO, extra_body={"ignore_eos": True})
    assert answer.usage is not None
    assert answer.usage.total_tokens == 3 * 128


async def test_non_ascii_text_arrives_intact_in_a_stream(api: Served) -> None:
    stream = await api.openai.chat.completions.create(
        model="echo", messages=[{"role": "user", "content": "Grüße 🙂"}], stream=True
    )
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "user: Grüße 🙂\nassistant:"


async def test_stream_ends_with_the_done_event(api: Served) -> None:
    answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "a", "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text.endswith("\n\ndata: [DONE]\n\n")


async def test_tokens_are_counted_in_the_series_of_vllm(api: Served) -> None:
    await api.openai.completions.create(model="echo", prompt="abcd", max_tokens=3)
    assert api.metric("gaudi_requests_total", endpoint="/v1/completions", code="200") == 1
    assert api.metric("vllm:prompt_tokens_total") == 4
    assert api.metric("vllm:generation_tokens_total") == 3
    assert api.metric("vllm:time_to_first_token_seconds_count") == 1


async def test_unknown_model_is_not_found(api: Served) -> None:
    sentence = "Model gpt-4 does not exist on this server. Use one of: echo, echo-alias."
    status, error = await refusal(api, model="gpt-4")
    kind = {"type": "invalid_request_error", "param": "model", "code": "model_not_found"}
    assert (status, error) == (404, {"message": sentence, **kind})


@pytest.mark.parametrize(("field", "value"), [("n", 2), ("max_tokens", 0), ("prompt", ["a", "b"])])
async def test_unsupported_value_names_its_field(api: Served, field: str, value: object) -> None:
    status, error = await refusal(api, **{field: value})
    assert (status, error["param"].startswith(field), error["message"].startswith(field)) == (400, True, True)


async def test_prompt_beyond_the_model_length_is_refused(api: Served) -> None:
    status, error = await refusal(api, prompt="x" * 500, max_tokens=100)
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert "500 prompt tokens and 100 tokens for the answer exceed the model's maximum length of 512" in str(error)


async def test_chat_that_leaves_no_room_for_one_token_is_refused(api: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="and 1 token for the answer exceed"):
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "user", "content": "x" * 510}])


@pytest.mark.parametrize("content", [b"{", b"[]"])
async def test_body_that_is_no_object_is_refused(api: Served, content: bytes) -> None:
    answer = await api.http.post("/v1/completions", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["message"].split(":")[0]) == (400, "body")
