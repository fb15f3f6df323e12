"""The JSON body of a request as a checked value."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gaudi_runtime.http.openai_api.errors import InvalidRequest

T = TypeVar("T", bound=BaseModel)


async def read_body(request: Request, kind: type[T]) -> T:
    """The body as a `kind`. Raises InvalidRequest that names the first wrong field."""
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise _refusal(error) from error


def _refusal(error: ValidationError) -> InvalidRequest:
    first = error.errors()[0]
    context = first.get("ctx") or {}
    if first["type"] == "json_invalid":
        return InvalidRequest(f"The body is not JSON: {context['error']}.")
    param = ".".join(str(part) for part in first["loc"]) or None
    message = first["msg"] if first["type"] == "unsupported" else f"{param or 'body'}: {first['msg']}."
    return InvalidRequest(message, param or context.get("param"))
