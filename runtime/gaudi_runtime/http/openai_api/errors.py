"""Errors in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`, with the usual HTTP status."""

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

CLIENT_WENT_AWAY = 499
"""The status of requests whose client has disconnected; it is counted but never sent."""


class ApiError(Exception):
    """An error in OpenAI's form, with a message for the client."""

    status = 500
    kind = "server_error"
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return error_body(self.message, self.kind, self.param, self.code)


class InvalidRequest(ApiError):
    """The error for a request to the OpenAI API that the server cannot serve unchanged."""

    status = 400
    kind = "invalid_request_error"


class UnknownModel(InvalidRequest):
    """The error of the OpenAI API for a model that does not exist."""

    status = 404


class Overloaded(ApiError):
    """The OpenAI API error if no place is free. The same request may succeed later."""

    status = 429
    kind = "rate_limit_error"
    headers = {"Retry-After": "1"}  # noqa: RUF012  # a constant


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return the error object in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


async def _handle_api_error(_: Request, error: ApiError) -> Response:
    return JSONResponse(error.body(), error.status, error.headers)


async def _handle_http_error(_: Request, error: HTTPException) -> Response:
    body = error_body(str(error.detail), "invalid_request_error")
    return JSONResponse(body, error.status_code, error.headers)


async def _handle_crash(_: Request, __: Exception) -> Response:
    # The client does not receive the text of the exception, because the text may contain files and addresses of this
    # pod.
    return JSONResponse(
        error_body("The server failed to answer. The log of the server has the reason.", "server_error"), 500
    )


async def _handle_disconnect(_: Request, __: Exception) -> Response:
    # The client does not receive this answer. Without the handler, every client that disconnects during its body causes
    # a traceback in the log.
    return Response(status_code=CLIENT_WENT_AWAY)


ERROR_HANDLERS: Mapping[Any, Any] = {
    ApiError: _handle_api_error,
    HTTPException: _handle_http_error,
    ClientDisconnect: _handle_disconnect,
    Exception: _handle_crash,
}
"""The handlers of all kinds of failure, which answer in OpenAI's form."""
