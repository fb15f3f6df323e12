"""What the JSON of a request may hold, looked at before any application validates it.

A validator tells what is wrong with every value. vLLM's models try each value of a chat as eight kinds of message: a
body of 1.2 MB with 400,000 empty lists took 6 GB and 20 seconds of the event loop. Only prompts have reason to be long:
as text, which is one value, or as token ids, which are counted as one.
"""

import json
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.http.openai_api.errors import InvalidRequest, error_body

MOST_VALUES = 20_000
"""Far above what a long chat with many tools has; a validator is done with as many wrong ones in a moment."""
TOKEN_FIELDS = frozenset({"prompt", "input", "tokens"})
MOST_TOKEN_ID = 2**32

# To its end also where its quote is missing, and never looked at twice: else a body of quotes took minutes.
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


def check_body(body: bytes) -> None:
    """Raise InvalidRequest where the JSON in `body` has more than MOST_VALUES values besides token ids.

    What is no JSON passes: the application says so in its own words.
    """
    if b"\0" in body:
        raise InvalidRequest("The body is no JSON in UTF-8.")  # in UTF-16, say, nothing below would be found
    if _at_most(MOST_VALUES, body, b",[{"):
        return
    bare = STRING.sub(b"", body)
    if _at_most(MOST_VALUES, bare, b",[{"):
        return
    if not _at_most(MOST_VALUES, bare, b"[{"):
        raise _too_many()
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    _count(document)


def _at_most(most: int, text: bytes, signs: bytes) -> bool:
    return sum(text.count(bytes([sign])) for sign in signs) <= most


def _count(document: Any) -> None:
    left, found = list[tuple[str | None, Any]]([(None, document)]), 0
    while left:
        name, value = left.pop()
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        found += len(inside)
        if name in TOKEN_FIELDS and isinstance(value, list) and _are_token_ids(value):
            found -= len(inside)
        elif found > MOST_VALUES:
            raise _too_many()
        elif isinstance(value, dict):
            # Prompts stand at the top, or in a list there.
            left += [(key if value is document else None, each) for key, each in value.items()]
        else:
            left += [(name, each) for each in inside if isinstance(each, (dict, list))]


def _are_token_ids(values: list[Any]) -> bool:
    return all(type(each) is int and 0 <= each < MOST_TOKEN_ID for each in values)


def _too_many() -> InvalidRequest:
    fields = ", ".join(sorted(TOKEN_FIELDS))
    return InvalidRequest(
        f"The body has more than {MOST_VALUES} values besides token ids (in {fields}); send fewer or smaller requests."
    )


class Bodies:
    """ASGI middleware: reads the whole body of what makes work, checks it, and hands it on in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        # Files come in forms, which no application reads as JSON and which have bounds of their own.
        if scope["method"] != "POST" or _content_type(scope).startswith(b"multipart/"):
            await self._app(scope, receive, send)
            return
        try:
            message = await _whole(receive)
            if not message["more_body"]:
                check_body(message["body"])
        except InvalidRequest as error:
            await JSONResponse(error.body(), error.status)(scope, receive, send)
            return
        except HTTPException as error:
            body = error_body(error.detail, "invalid_request_error")
            await JSONResponse(body, error.status_code)(scope, receive, send)
            return
        handed_on = False

        async def again() -> Message:
            nonlocal handed_on
            if handed_on:
                return await receive()
            handed_on = True
            return message

        await self._app(scope, again, send)


async def _whole(receive: Receive) -> Message:
    """All of a body, or what came of it before its client went away."""
    pieces = list[bytes]()
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            gone = message["type"] == "http.disconnect"
            return {"type": "http.request", "body": b"".join(pieces), "more_body": gone}


def _content_type(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name == b"content-type"), b"").strip().lower()
