"""Text completions, models and health with the real openai client."""

import openai
import pytest

from tests.unit.runtime.serving import Served


async def test_models_lists_every_served_name(api: Served) -> None:
    models = await api.openai.models.list()
    assert [model.id for model in models.data] == ["echo", "echo-alias"]


async def test_single_served_name_can_be_retrieved(api: Served) -> None:
    assert (await api.openai.models.retrieve("echo-alias")).id == "echo-alias"
    with pytest.raises(openai.NotFoundError):
        await api.openai.models.retrieve("other/name")


async def test_health_is_ok(api: Served) -> None:
    assert (await api.http.get("/health")).status_code == 200


@pytest.mark.parametrize("prompt", ["abc", [97, 98, 99]])
async def test_text_and_token_ids_return_the_same_completion(api: Served, prompt: str | list[int]) -> None:
    answer = await api.openai.completions.create(model="echo-alias", prompt=prompt)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("abc", "stop")


async def test_list_of_prompts_times_n_is_indexed_prompt_by_prompt(api: Served) -> None:
    answer = await api.openai.completions.create(model="echo", prompt=["a", "b"], n=2)
    assert [(choice.index, choice.text) for choice in answer.choices] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 4)


async def test_default_length_is_sixteen_tokens(api: Served) -> None:
    answer = await api.openai.completions.create(model="echo", prompt="x" * 40)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("x" * 16, "length")


async def test_text_ends_before_the_stop_string(api: Served) -> None:
    answer = await api.openai.completions.create(model="echo", prompt="one two three", stop=[" th", "wo"])
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("one t", "stop")


async def test_echo_returns_the_prompt_before_the_completion(api: Served) -> None:
    answer = await api.openai.completions.create(model="echo", prompt="ab", echo=True)
    assert answer.choices[0].text == "abab"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2


async def test_stream_pieces_join_to_the_answer(api: Served) -> None:
    stream = await api.openai.completions.create(model="echo", prompt="abc", stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == "abc"
    assert chunks[-1].choices[0].finish_reason == "stop"


async def test_stream_ends_with_the_done_event(api: Served) -> None:
    body = {"model": "echo", "prompt": "a", "stream": True}
    answer = await api.http.post("/v1/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text.endswith("\n\ndata: [DONE]\n\n")


async def test_requests_and_tokens_are_counted(api: Served) -> None:
    await api.openai.completions.create(model="echo", prompt="abc")
    assert api.metric("gaudi_requests_total", endpoint="/v1/completions", code="200") == 1
    assert api.metric("gaudi_prompt_tokens_total") == 3
    assert api.metric("gaudi_generated_tokens_total") == 3
    assert api.metric("gaudi_time_to_first_token_seconds_count") == 1
