"""Chat completions with the real openai client. The sim engine echoes the whole prompt."""

import openai
import pytest

from gaudi_runtime.http.openai_api.requests import CompletionRequest
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served

HELLO = [{"role": "user", "content": "hi"}]
ECHO = "user: hi\nassistant:"


async def test_complete_answer_echoes_the_conversation(api: Served) -> None:
    answer = await api.openai.chat.completions.create(model="echo", messages=HELLO)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == ECHO
    assert answer.choices[0].finish_reason == "stop"


async def test_usage_has_prompt_and_completion_tokens(api: Served) -> None:
    answer = await api.openai.chat.completions.create(model="echo", messages=HELLO, max_tokens=4)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (19, 4, 23)


async def test_max_completion_tokens_ends_the_answer_with_reason_length(api: Served) -> None:
    answer = await api.openai.chat.completions.create(model="echo", messages=HELLO, max_completion_tokens=4)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("user", "length")


async def test_stream_begins_with_the_role_and_ends_with_a_reason(api: Served) -> None:
    stream = await api.openai.chat.completions.create(model="echo", messages=HELLO, stream=True)
    chunks = [chunk async for chunk in stream]
    assert (chunks[0].choices[0].delta.role, chunks[0].choices[0].delta.content) == ("assistant", "")
    assert {chunk.model for chunk in chunks} == {"echo"}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ECHO
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "stop"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


async def test_stream_with_usage_ends_with_a_chunk_without_choices(api: Served) -> None:
    stream = await api.openai.chat.completions.create(
        model="echo", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    *others, last = [chunk async for chunk in stream]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.total_tokens == 38
    assert all("usage" in each.model_fields_set and each.usage is None for each in others)


async def test_n_returns_that_many_choices_in_order(api: Served) -> None:
    answer = await api.openai.chat.completions.create(model="echo", messages=HELLO, n=3)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [(at, ECHO) for at in range(3)]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (19, 57)


async def test_each_streamed_choice_is_complete(api: Served) -> None:
    stream = await api.openai.chat.completions.create(model="echo", messages=HELLO, n=2, stream=True)
    texts = {0: "", 1: ""}
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == {0: ECHO, 1: ECHO}


async def test_text_parts_are_joined_and_developer_becomes_system(api: Served) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answer = await api.openai.chat.completions.create(model="echo", messages=[{"role": "developer", "content": parts}])
    assert answer.choices[0].message.content == "system: ab\nassistant:"


async def test_non_ascii_text_arrives_intact_in_a_stream(api: Served) -> None:
    stream = await api.openai.chat.completions.create(
        model="echo", messages=[{"role": "user", "content": "Grüße 🙂"}], stream=True
    )
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "user: Grüße 🙂\nassistant:"


async def test_error_of_the_template_is_a_bad_request(api: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="the first message cannot have the role assistant"):
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "assistant", "content": "me"}])


async def test_images_are_refused(api: Served) -> None:
    image = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    with pytest.raises(openai.BadRequestError):
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "user", "content": image}])


async def test_answer_without_a_token_limit_is_limited_by_the_cache() -> None:
    small = {"deviceMemoryBytes": 2**30, "weightBytes": 0, "blockBytes": 2**28, "graphBytesPerToken": 1}
    async with served(sim_config(small)) as api:
        assert api.engine.current_load().total_blocks == 3
        answer = await api.openai.chat.completions.create(model="echo", messages=HELLO, extra_body={"ignore_eos": True})
    assert answer.usage is not None
    assert answer.usage.total_tokens == 3 * 128


async def test_max_completion_tokens_has_precedence_over_max_tokens(api: Served) -> None:
    answer = await api.openai.chat.completions.create(
        model="echo", messages=HELLO, max_completion_tokens=4, max_tokens=9
    )
    assert answer.choices[0].message.content == "user"


def test_each_choice_has_the_next_seed() -> None:
    body = CompletionRequest(model="echo", prompt="hi", n=3, seed=7)
    assert [body.sampling_params(choice, 4).seed for choice in range(3)] == [7, 8, 9]
