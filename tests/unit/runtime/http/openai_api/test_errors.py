"""Every error of the model port: the form (the same as OpenAI's), the status, and the message of each refusal."""

from typing import Any

import openai
import pytest
from httpx import ASGITransport, AsyncClient, Response
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from gaudi_runtime.http.openai_api.errors import ERROR_HANDLERS, InvalidRequest, Overloaded, UnknownModel
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served


async def answer_to(error: Exception) -> Response:
    """Return the response of an application whose endpoint raises `error`."""

    async def fail(_: Request) -> Any:
        raise error

    app = Starlette(routes=[Route("/", fail)], exception_handlers=dict(ERROR_HANDLERS))
    transport = ASGITransport(app=app, raise_app_exceptions=False)
    async with AsyncClient(transport=transport, base_url="http://pod") as client:
        return await client.get("/")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("Say why", "n", "code"), 400, "invalid_request_error"),
        (UnknownModel("Say why", "n", "code"), 404, "invalid_request_error"),
        (Overloaded("Say why", "n", "code"), 429, "rate_limit_error"),
    ],
)
async def test_refusal_names_its_reason_parameter_and_code(error: Exception, status: int, kind: str) -> None:
    answer = await answer_to(error)
    assert answer.status_code == status
    assert answer.json() == {"error": {"message": "Say why", "type": kind, "param": "n", "code": "code"}}


async def test_overloaded_server_sends_retry_after() -> None:
    assert int((await answer_to(Overloaded("Later."))).headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("error", "status", "message", "kind"),
    [
        (HTTPException(405, "Use POST"), 405, "Use POST", "invalid_request_error"),
        (
            ValueError("/secret/file"),
            500,
            "The server failed to answer. The log of the server has the reason.",
            "server_error",
        ),
    ],
    ids=["a wrong method keeps its detail", "a crash shows nothing of the exception"],
)
async def test_http_and_unexpected_errors_have_the_form_of_openai(
    error: Exception, status: int, message: str, kind: str
) -> None:
    answer = await answer_to(error)
    assert answer.status_code == status
    assert answer.json() == {"error": {"message": message, "type": kind, "param": None, "code": None}}


async def test_headers_of_a_refusal_are_kept() -> None:
    assert (await answer_to(HTTPException(405, "Use POST", {"Allow": "POST"}))).headers["allow"] == "POST"


async def test_client_disconnect_is_counted_separately() -> None:
    assert (await answer_to(ClientDisconnect())).status_code == 499


async def refusal(api: Served, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "a"} | body)
    return answer.status_code, answer.json()["error"]


async def test_unknown_model_is_not_found(api: Served) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await api.openai.completions.create(model="gpt-4", prompt="a")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert "Model gpt-4 does not exist on this server. Use one of: echo, echo-alias." in str(refused.value)


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
    assert error["message"] == f"{field} is not supported by this server. Remove {field}."


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
    assert (
        "500 prompt tokens and 100 tokens for the answer exceed the model's maximum length of 512" in error["message"]
    )


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


async def test_unknown_path_returns_404_with_the_openai_error_type(api: Served) -> None:
    answer = await api.http.get("/v1/engines")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_request_may_have_as_many_choices_as_places() -> None:
    async with served(sim_config(max_num_seqs=2, serving={"max_queued_requests": 1})) as api:
        answer = await api.openai.completions.create(model="echo", prompt="a", n=3)
        assert len(answer.choices) == 3
        with pytest.raises(openai.BadRequestError, match="than this server can run and queue at once, which is 3"):
            await api.openai.completions.create(model="echo", prompt="a", n=4)


async def test_more_choices_than_places_are_refused(api: Served) -> None:
    status, error = await refusal(api, prompt=["a"] * 100, n=3)
    assert (status, error["param"]) == (400, "n")


async def test_body_that_is_no_object_is_refused(api: Served) -> None:
    answer = await api.http.post("/v1/completions", json=[])
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["message"].split(":")[0]) == (400, None, "body")


async def test_wrong_field_within_a_message_is_reported_by_its_path(api: Served) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "a"}, {"role": "unknown"}]}
    answer = await api.http.post("/v1/chat/completions", json=body)
    assert answer.json()["error"]["param"] == "messages.1.role"


async def test_chat_that_leaves_no_room_for_one_token_is_refused(api: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="and 1 token for the answer exceed"):
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "user", "content": "x" * 510}])


async def test_error_of_the_template_names_the_messages_parameter(api: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await api.openai.chat.completions.create(model="echo", messages=[{"role": "assistant", "content": "me"}])
    assert refused.value.param == "messages"


async def test_refusal_has_every_field_of_openai(api: Served) -> None:
    body = (await api.http.get("/v1/models/other")).json()
    assert body["error"] == {
        "message": "Model other does not exist on this server. Use one of: echo, echo-alias.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


async def test_unknown_path_has_an_openai_error_body(api: Served) -> None:
    body = (await api.http.get("/v1/engines")).json()
    assert body["error"] == {
        "message": 'This path does not exist. The page "OpenAI API" of the manual lists the paths of this server.',
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_wrong_method_returns_the_allowed_methods(api: Served) -> None:
    answer = await api.http.get("/v1/completions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
