"""Every kind of failure becomes an answer in OpenAI's form."""

from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient, Response
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from gaudi_runtime.http.openai_api.errors import ERROR_HANDLERS, InvalidRequest, NotFound, Overloaded


async def answer_to(error: Exception) -> Response:
    """The answer of an application whose endpoint raises `error`."""

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
        (NotFound("Say why", "n", "code"), 404, "invalid_request_error"),
        (Overloaded("Say why", "n", "code"), 429, "rate_limit_error"),
    ],
)
async def test_refusal_names_its_reason_parameter_and_code(error: Exception, status: int, kind: str) -> None:
    answer = await answer_to(error)
    assert answer.status_code == status
    assert answer.json() == {"error": {"message": "Say why", "type": kind, "param": "n", "code": "code"}}


async def test_overloaded_server_says_when_to_try_again() -> None:
    assert int((await answer_to(Overloaded("Later."))).headers["retry-after"]) >= 1


async def test_wrong_method_is_refused_with_detail_and_headers() -> None:
    answer = await answer_to(HTTPException(405, "Use POST", {"Allow": "POST"}))
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"] == {
        "message": "Use POST",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_crash_shows_nothing_of_the_exception() -> None:
    answer = await answer_to(ValueError("/secret/file"))
    assert answer.status_code == 500
    assert answer.json()["error"] == {
        "message": "The server failed to answer; its log says why.",
        "type": "server_error",
        "param": None,
        "code": None,
    }


async def test_client_that_went_away_is_counted_as_such() -> None:
    assert (await answer_to(ClientDisconnect())).status_code == 499
