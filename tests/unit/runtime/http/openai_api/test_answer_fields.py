"""Every field of the responses, compared with the fields in OpenAI's responses."""

import json
from typing import Any

from gaudi_runtime.http.openai_api.answer import ChatFormat
from tests.unit.runtime.serving import Served

HELLO = {"model": "echo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


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


async def test_text_completion_has_every_field_of_openai(api: Served) -> None:
    [body] = await response_bodies(api, "/v1/completions", model="echo", prompt="ab")
    assert body == {
        "model": "echo",
        "object": "text_completion",
        "choices": [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4},
    }


async def test_chat_completion_has_every_field_of_openai(api: Served) -> None:
    [body] = await response_bodies(api, "/v1/chat/completions", **HELLO)
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
    assert last == common | {
        "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


async def test_chunks_of_a_chat_have_every_field_of_openai(api: Served) -> None:
    chunks = await response_bodies(api, "/v1/chat/completions", **HELLO | {"max_tokens": 1}, stream=True)
    common = {"model": "echo", "object": "chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}, {"content": "u"}]
    reasons = [None, "length"]
    assert chunks == [
        common | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}
        for delta, reason in zip(deltas, reasons, strict=True)
    ]


async def test_model_has_every_field_of_openai(api: Served) -> None:
    listed = (await api.http.get("/v1/models")).json()
    alone = (await api.http.get("/v1/models/echo")).json()
    assert isinstance(alone.pop("created"), int)
    assert alone == {"id": "echo", "object": "model", "owned_by": "gaudi-runtime"}
    assert (listed["object"], listed["data"][0]["object"]) == ("list", "model")


async def test_health_is_ok(api: Served) -> None:
    assert (await api.http.get("/health")).json() == {"status": "ok"}


def test_last_chunk_of_chat_without_text_has_empty_delta() -> None:
    assert ChatFormat().delta_choice(0, "", "stop")["delta"] == {}
