"""The requests that the model port refuses, in OpenAI's form and with a message."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served


async def refusal(api: Served, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "a"} | body)
    return answer.status_code, answer.json()["error"]


async def test_unknown_model_is_not_found(api: Served) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await api.openai.completions.create(model="gpt-4", prompt="a")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert "Model gpt-4 is not served here; this server has echo, echo-alias." in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logprobs", 3),
        ("logprobs", 0),
        ("tools", [{"type": "function"}]),
        ("logit_bias", {"50256": -100}),
        ("response_format", {"type": "json_object"}),
        ("presence_penalty", 0.5),
        ("best_of", 2),
        ("suffix", "end"),
    ],
)
async def test_unsupported_field_that_changes_answers_is_refused(api: Served, field: str, value: object) -> None:
    status, error = await refusal(api, **{field: value})
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", field)
    assert error["message"] == f"{field} is not supported by this server. Leave it out."


@pytest.mark.parametrize(
    "field",
    [
        {"user": "someone"},
        {"logprobs": None},
        {"presence_penalty": 0.0},
        {"tools": []},
        {"response_format": {"type": "text"}},
        {"metadata": {"a": "b"}},
        {"store": False},
        {"best_of": 1},
    ],
)
async def test_field_without_effect_is_ignored(api: Served, field: dict[str, object]) -> None:
    answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "a"} | field)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", 3), ("top_p", 0), ("n", 0), ("max_tokens", 0), ("stop", [""]), ("seed", "x")],
)
async def test_value_out_of_range_names_its_field(api: Served, field: str, value: object) -> None:
    status, error = await refusal(api, **{field: value})
    assert status == 400
    assert error["param"].startswith(field)
    assert error["message"].startswith(field)


async def test_prompt_beyond_the_model_length_is_refused(api: Served) -> None:
    status, error = await refusal(api, prompt="x" * 500, max_tokens=100)
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert "500 prompt tokens and 100 tokens for the answer exceed the model's length of 512" in error["message"]


async def test_empty_list_of_prompts_is_refused(api: Served) -> None:
    status, _ = await refusal(api, prompt=[])
    assert status == 400


async def test_echo_of_token_ids_is_refused(api: Served) -> None:
    status, error = await refusal(api, prompt=[97], echo=True)
    assert (status, error["param"]) == (400, "echo")
    assert error["message"] == "echo needs prompts as text, not as token ids."


async def test_invalid_json_is_a_bad_request(api: Served) -> None:
    answer = await api.http.post("/v1/completions", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("The body is not JSON: ")


async def test_endless_body_is_cut_off(api: Served) -> None:
    answer = await api.http.post(
        "/v1/completions", content=b'"' + b" " * 17 * 1024 * 1024, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "The body is larger than 16777216 bytes."


async def test_chunked_body_is_cut_off_at_the_limit(api: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * 1024 * 1024

    answer = await api.http.post("/v1/completions", content=pieces(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


async def test_unknown_path_is_not_found_in_openai_form(api: Served) -> None:
    answer = await api.http.get("/v1/engines")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_body_of_exactly_the_limit_is_read(api: Served) -> None:
    head = {"content-type": "application/json"}
    answer = await api.http.post("/v1/completions", content=b" " * 16 * 1024 * 1024, headers=head)
    assert answer.status_code == 400


async def test_as_many_choices_as_places_are_served() -> None:
    async with served(sim_config(max_num_seqs=2, serving={"max_queued_requests": 1})) as api:
        answer = await api.openai.completions.create(model="echo", prompt="a", n=3)
        assert len(answer.choices) == 3
        with pytest.raises(openai.BadRequestError, match="asks for 4 completions, but this server accepts at most 3"):
            await api.openai.completions.create(model="echo", prompt="a", n=4)


async def test_more_choices_than_places_are_refused(api: Served) -> None:
    status, error = await refusal(api, prompt=["a"] * 100, n=3)
    assert (status, error["param"]) == (400, "n")
