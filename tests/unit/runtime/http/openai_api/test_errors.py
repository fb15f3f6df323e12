"""Every kind of error is answered in OpenAI's form."""

from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient, Response
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from gaudi_runtime.http.openai_api.errors import ERROR_HANDLERS, InvalidRequest, NotFound, Overloaded


async def answer_to(error: Exception) -> Response:
    """Return the answer of an application whose endpoint raises `error`."""

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


async def test_overloaded_server_sends_retry_after() -> None:
    assert int((await answer_to(Overloaded("Later."))).headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("error", "status", "message", "kind"),
    [
        (HTTPException(405, "Use POST"), 405, "Use POST", "invalid_request_error"),
        (ValueError("/secret/file"), 500, "The server failed to answer. Its log has the reason.", "server_error"),
    ],
    ids=["a wrong method keeps its detail", "a crash shows nothing of the exception"],
)
async def test_other_errors_have_the_same_form(error: Exception, status: int, message: str, kind: str) -> None:
    answer = await answer_to(error)
    assert answer.status_code == status
    assert answer.json() == {"error": {"message": message, "type": kind, "param": None, "code": None}}


async def test_headers_of_a_refusal_are_kept() -> None:
    assert (await answer_to(HTTPException(405, "Use POST", {"Allow": "POST"}))).headers["allow"] == "POST"


async def test_client_disconnect_is_counted_separately() -> None:
    assert (await answer_to(ClientDisconnect())).status_code == 499
