"""Checks of a request body before an application validates it, and the admission of the sequences in the body.

A validator reports an error for every wrong value, and vLLM's models try each value of a chat as up to sixty kinds of
item. So the number of values is limited here. engines/vllm/vllm_imports.py makes vLLM's models stop at the first wrong
value of a list. Only lists of token IDs may have many values, in the one field of a path that accepts token IDs.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import MappingProxyType
from typing import Any

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.http.openai_api.admission import SequenceAdmission, count_sequences_to_admit
from gaudi_runtime.http.openai_api.body_reader import BodyReader
from gaudi_runtime.http.openai_api.errors import CLIENT_WENT_AWAY, ApiError, InvalidRequest, openai_error_body
from gaudi_runtime.http.openai_api.media import check_media

MOST_VALUES = 20_000
"""The most values of a body. A long chat with many tools has fewer."""
TOKEN_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "/v1/completions": "prompt",
        "/v1/embeddings": "input",
        "/pooling": "input",
        "/classify": "input",
        "/detokenize": "tokens",
    }
)
"""The field that takes token ids by path, as one list or as a list of lists."""
MOST_TOKEN_ID = 2**32
RESPONSES = "/v1/responses"
MOST_ITEMS = 4096
"""The most items in `input` of a response: vLLM tries each as about sixty kinds, which takes 0.1 ms."""
LARGE_BYTES = 256 * 1024
"""Bodies of this size and above are checked in a thread, and all bodies for a model that takes images."""
FORMS = "/v1/audio/"
"""The prefix of paths that take a file in a form; all others take JSON."""
MEDIA_OPTIONS = ("media_io_kwargs", "mm_processor_kwargs")
"""Options of media readers and processors by which a request could raise the limits of frames and pixels."""

# A string without a closing quote ends at the end of the text, and the match never backtracks. Otherwise a body full of
# quotes would take minutes.
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


def check_body(
    path: str, body: bytes, *, max_pixels: int = 0, ignored_fields: Mapping[str, object] = MappingProxyType({})
) -> int:
    """Return the number of sequences of the JSON body.

    Raises InvalidRequest if the body has more values, items or pixels than `path` allows, one of MEDIA_OPTIONS, or a
    field that the engine ignores with another value than in `ignored_fields`. `max_pixels` is the limit for all images
    together; 0 means that images are not checked. A body that is not JSON passes as one sequence, because the
    application rejects it with its own message.
    """
    if b"\0" in body:
        raise InvalidRequest("The body is not JSON in UTF-8.")  # the checks below would find nothing in UTF-16
    token_field = TOKEN_FIELDS.get(path)
    # In JSON, every value except for the document follows one of these signs. So most bodies need no count of values.
    may_have_too_many_values = sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES
    if may_have_too_many_values:
        _check_sign_counts(body, b"[{" if token_field else b",[{")
    try:
        document = json.loads(body)
    except RecursionError as error:
        raise InvalidRequest("The body is nested too deeply. Send a flatter one.") from error
    except ValueError:
        return 1
    if may_have_too_many_values:
        _check_value_count(document, token_field)
    if isinstance(document, dict):
        _refuse_media_options(document)
        _refuse_ignored_fields(document, ignored_fields)
        if path == RESPONSES:
            _check_items(document.get("input"))
    if max_pixels:
        check_media(document, max_pixels)
    values = document if isinstance(document, dict) else {}
    return count_sequences_to_admit(values.get(token_field or ""), values.get("n"))


def _check_sign_counts(body: bytes, signs: bytes) -> None:
    """Reject a body with too many signs before it is parsed, because parsing would need much memory."""
    if all(_is_within_limit(sign, body) for sign in signs):
        return
    unquoted_text = STRING.sub(b"", body)
    if not all(_is_within_limit(sign, unquoted_text) for sign in signs):
        raise _too_many_values()


def _is_within_limit(sign: int, text: bytes) -> bool:
    # Each comma, bracket or brace implies at least one value. So each of these characters may occur at most as often as
    # values.
    return text.count(bytes([sign])) <= MOST_VALUES


def _check_value_count(document: Any, token_field: str | None) -> None:
    pending_values, value_count = list[tuple[str | None, Any]]([(None, document)]), 0
    while pending_values:
        name, value = pending_values.pop()
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        value_count += len(children)
        if token_field and name == token_field and isinstance(value, list) and _are_token_ids(value):
            value_count -= len(children)
        elif value_count > MOST_VALUES:
            raise _too_many_values()
        elif isinstance(value, dict):
            # Token ids are in a field of the document, or in a list inside this field.
            pending_values += [(key if value is document else None, child) for key, child in value.items()]
        else:
            pending_values += [(name, child) for child in children if isinstance(child, (dict, list))]


def _are_token_ids(values: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value < MOST_TOKEN_ID for value in values)


def _too_many_values() -> InvalidRequest:
    return InvalidRequest(
        f"The body has more than {MOST_VALUES} values, not counting token ids. Send fewer or smaller requests."
    )


def _refuse_media_options(document: dict[str, Any]) -> None:
    for name in MEDIA_OPTIONS:
        if document.get(name):
            raise InvalidRequest(
                f"{name} is not allowed in requests to this server. Remove {name}, or set it for the server in "
                "spec.engine.settings.",
                name,
            )


def _refuse_ignored_fields(document: dict[str, Any], fields: Mapping[str, object]) -> None:
    for name, neutral_value in fields.items():
        if document.get(name) not in (None, neutral_value):
            raise InvalidRequest(
                f"This server cannot apply {name}: vLLM's plugin for Gaudi ignores it. Remove {name}.", name
            )


def _check_items(items: Any) -> None:
    if not isinstance(items, list):
        return
    if len(items) > MOST_ITEMS:
        raise InvalidRequest(f"input has {len(items)} items, but this server accepts at most {MOST_ITEMS}.", "input")
    invalid_index = next((index for index, item in enumerate(items) if not isinstance(item, dict)), None)
    if invalid_index is not None:
        raise InvalidRequest(
            f"input[{invalid_index}] is not an object. Send text as a string, or items as objects.", "input"
        )


class BodyMiddleware:
    """ASGI middleware that reads the whole body of a POST, checks it, and reserves a place for each of its sequences.

    The body is forwarded as one message. `track_request` is entered while the request has places. `max_pixels` limits
    the images of one request; 0 means no images. `ignored_fields` are the fields that the engine does not apply, each
    with the value that changes nothing.
    """

    def __init__(
        self,
        app: ASGIApp,
        admission: SequenceAdmission,
        track_request: Callable[[], AbstractContextManager[None]],
        *,
        max_pixels: int = 0,
        ignored_fields: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._app, self._admission, self._track_request = app, admission, track_request
        self._reader = BodyReader()
        self._check = partial(check_body, max_pixels=max_pixels, ignored_fields=ignored_fields)
        self._inline_bytes = 0 if max_pixels else LARGE_BYTES
        # One thread bounds the memory of the checks: Pillow may inflate 64 MiB of text of an image.
        self._thread = ThreadPoolExecutor(1, "body-check")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        with ExitStack() as places:
            try:
                body = await self._read_admissible_body(scope, receive, places)
            except ApiError as error:
                await JSONResponse(error.body(), error.status, error.headers)(scope, receive, send)
                return
            except HTTPException as error:
                content = openai_error_body(error.detail, "invalid_request_error")
                await JSONResponse(content, error.status_code)(scope, receive, send)
                return
            except ClientDisconnect:
                await Response(status_code=CLIENT_WENT_AWAY)(scope, receive, send)
                return
            await self._app(scope, _replay_body(body, receive), send)

    async def _read_admissible_body(self, scope: Scope, receive: Receive, places: ExitStack) -> bytes:
        """Return the body after its check, and enter its places into `places`."""
        is_form = _is_form(scope)
        self._admission.check_free()  # a full server reads no body
        async with self._reader.read(receive) as body:
            sequences = await (_count_form_sequences(scope, body) if is_form else self._run_check(scope["path"], body))
        places.enter_context(self._admission.admit(sequences))
        places.enter_context(self._track_request())
        return body

    async def _run_check(self, path: str, body: bytes) -> int:
        if len(body) < self._inline_bytes:
            return self._check(path, body)
        # The check takes tens of milliseconds, or more for images, which would block the event loop.
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._check, path, body)


def _is_form(scope: Scope) -> bool:
    """Return True if the body is a form. Raises HTTPException if the path accepts another type."""
    is_form: bool = scope["path"].startswith(FORMS)
    expected_type = "multipart/form-data" if is_form else "application/json"
    if _media_type(scope) != expected_type:
        # The check reads a body as JSON. An application that reads another type from the same body could bypass the
        # check.
        raise HTTPException(415, f"{scope['path']} requires Content-Type {expected_type}. Send a body of this type.")
    return is_form


def _media_type(scope: Scope) -> str:
    value: bytes = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return value.partition(b";")[0].strip().lower().decode("latin-1")


async def _count_form_sequences(scope: Scope, body: bytes) -> int:
    """Return the number of beams in a form. The application parses the form in the same way."""
    try:
        async with Request(scope, _replay_body(body)).form() as form:
            return count_sequences_to_admit(None, form.get("n"))
    except (HTTPException, MultiPartException):
        return 1  # the application rejects the form with its own message


def _replay_body(body: bytes, receive: Receive | None = None) -> Receive:
    """Return a `receive` that returns `body` first, and then the messages of `receive`."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        if messages or receive is None:
            return messages.pop()
        return await receive()

    return receive_again
