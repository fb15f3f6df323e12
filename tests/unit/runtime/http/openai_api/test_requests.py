"""Parsing of requests."""

from typing import Any

import openai
import pytest
from pydantic import BaseModel, ValidationError

from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.http.openai_api.requests import ChatRequest, CompletionRequest, Message
from tests.unit.runtime.serving import Served


def test_sampling_has_the_requested_parameters() -> None:
    body = CompletionRequest(
        model="echo", prompt="hi", temperature=0.5, top_p=0.25, top_k=7, seed=3, stop=["a", "b"], ignore_eos=True
    )
    assert body.sampling(2, 9) == SamplingParams(
        temperature=0.5, top_p=0.25, top_k=7, seed=5, max_tokens=9, stop=("a", "b"), ignore_eos=True
    )


def test_default_sampling_is_that_of_openai() -> None:
    assert CompletionRequest(model="echo", prompt="hi").sampling(0, 4) == SamplingParams(max_tokens=4)


def test_top_k_of_minus_one_filters_nothing() -> None:
    assert CompletionRequest(model="echo", prompt="hi", top_k=-1).sampling(0, 4).top_k == 0


def test_stop_may_be_one_string() -> None:
    assert CompletionRequest(model="echo", prompt="hi", stop="abc").sampling(0, 4).stop == ("abc",)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("ab", ["ab"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2, 3]], [[1], [2, 3]])],
)
def test_prompt_has_four_forms(prompt: object, prompts: list[object]) -> None:
    assert CompletionRequest.model_validate({"model": "echo", "prompt": prompt}).prompts() == prompts


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ({"role": "assistant"}, {"role": "assistant", "content": ""}),
        ({"role": "developer", "content": "a"}, {"role": "system", "content": "a"}),
        ({"role": "tool", "content": [{"type": "text", "text": "a"}]}, {"role": "tool", "content": "a"}),
    ],
)
def test_template_gets_plain_text(message: dict[str, object], seen: dict[str, object]) -> None:
    assert Message.model_validate(message).for_template() == seen


async def test_body_that_is_no_object_is_refused(api: Served) -> None:
    answer = await api.http.post("/v1/completions", json=[])
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["message"].split(":")[0]) == (400, None, "body")


async def test_wrong_field_within_a_message_is_named_by_its_path(api: Served) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "a"}, {"role": "unknown"}]}
    answer = await api.http.post("/v1/chat/completions", json=body)
    assert answer.json()["error"]["param"] == "messages.1.role"


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
async def test_seed_is_accepted(api: Served, path: str) -> None:
    body = {"model": "echo", "prompt": "a", "messages": [{"role": "user", "content": "a"}], "seed": 7, "n": 2}
    assert (await api.http.post(f"/v1/{path}", json=body)).status_code == 200


async def test_chat_beyond_the_model_leaves_room_for_one_token(api: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="and 1 token for the answer exceed"):
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "user", "content": "x" * 510}])


async def test_error_of_the_template_names_the_messages(api: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "assistant", "content": "me"}])
    assert refused.value.param == "messages"


@pytest.mark.parametrize(
    ("kind", "field", "entry", "most"),
    [
        (CompletionRequest, "prompt", "a", 4096),
        (CompletionRequest, "prompt", [1], 4096),
        (ChatRequest, "messages", {"role": "user"}, 16_384),
        (Message, "content", {"type": "text", "text": "a"}, 16_384),
    ],
)
def test_number_of_parts_of_a_request_is_limited(kind: type[BaseModel], field: str, entry: Any, most: int) -> None:
    common = {"model": "echo", "role": "user"}
    assert kind.model_validate({**common, field: [entry] * most})
    with pytest.raises(ValidationError, match="at most"):
        kind.model_validate({**common, field: [entry] * (most + 1)})
    with pytest.raises(ValidationError) as refused:
        kind.model_validate({**common, field: [{}] * (most + 1)})
    assert refused.value.error_count() <= 4, "not one of every entry"
