"""Errors in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`, with the usual HTTP status."""

from collections.abc import Mapping
from typing import Any

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
        return openai_error_body(self.message, self.kind, self.param, self.code)


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


def openai_error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return the error object in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
