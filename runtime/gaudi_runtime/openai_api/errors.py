"""Errors in OpenAI's form: `{"error": {"message", "type", "param", "code"}}` with the status that clients expect."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException


class ApiError(Exception):
    """A refusal with a sentence for the client."""

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
    """The request can never be served as it is."""

    status = 400
    kind = "invalid_request_error"


class NotFound(InvalidRequest):
    """There is no such model."""

    status = 404


class TooLarge(InvalidRequest):
    """The body of the request is too long."""

    status = 413


class Overloaded(ApiError):
    """All places are taken; the same request may succeed in a moment."""

    status = 429
    kind = "rate_limit_error"
    headers = {"Retry-After": "1"}  # noqa: RUF012  # a constant


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def add_error_handlers(app: FastAPI) -> None:
    """Answer every kind of failure in OpenAI's form."""

    @app.exception_handler(ApiError)
    async def refused(_: Request, error: ApiError) -> JSONResponse:
        return JSONResponse(error.body(), error.status, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(_validation_error(error).body(), 400)

    @app.exception_handler(HTTPException)
    async def no_route(_: Request, error: HTTPException) -> JSONResponse:
        body = error_body(str(error.detail), "invalid_request_error")
        return JSONResponse(body, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def crashed(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(error_body("The server failed to answer; its log says why.", "server_error"), 500)


def _validation_error(error: RequestValidationError) -> InvalidRequest:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return InvalidRequest(f"The body is not JSON: {first['ctx']['error']}.")
    param = ".".join(str(part) for part in first["loc"][1:]) or None
    message = first["msg"] if first["type"] == "unsupported" else f"{param or 'body'}: {first['msg']}."
    return InvalidRequest(message, param or (first.get("ctx") or {}).get("param"))
