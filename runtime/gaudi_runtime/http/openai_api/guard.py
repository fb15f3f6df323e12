"""The guard of the model port: all limits in front of an application, and the closing mode.

A request passes these checks in order: the key (api_key.py), the path (paths.py), and its body, which is read
(body_reader.py) and checked (body.py). Then it gets a place for each of its sequences (admission.py).
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.admission import SequenceAdmission
from gaudi_runtime.http.openai_api.api_key import require_api_key
from gaudi_runtime.http.openai_api.body import BodyMiddleware
from gaudi_runtime.http.openai_api.errors import CLIENT_WENT_AWAY
from gaudi_runtime.http.openai_api.paths import AllowedPaths, path_uses_engine

COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})

# The form of errors in the streams of vLLM and of the sim engine. Quotes and ends of lines are escaped in JSON,
# so generated text cannot match. An error with a 4xx code is the fault of the request.
ERROR_EVENT = re.compile(rb'^(?:event: error$|data: \{"error"(?!.*"code": ?4))', re.MULTILINE)


class GuardMiddleware:
    """ASGI middleware that counts answers, and failed answers.

    While `is_closing` returns True, every answer closes its connection. The client then opens its next connection to
    another pod.
    """

    def __init__(self, app: ASGIApp, is_closing: Callable[[], bool], metrics: RequestMetrics) -> None:
        self._app, self._is_closing, self._metrics = app, is_closing, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        answer = _Answer()

        async def receive_and_note() -> Message:
            message = await receive()
            answer.is_abandoned |= message["type"] == "http.disconnect"
            return message

        # This runs for every token, so it is no coroutine.
        def send_and_count(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                if self._is_closing():
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                self._count_status(scope, message["status"])
                answer.note_start(message)
            else:
                answer.note_body(message)
            return send(message)

        try:
            await self._app(scope, receive_and_note, send_and_count)
        except Exception:
            if not answer.has_started:
                # An outer handler answers with status 500.
                self._count_status(scope, CLIENT_WENT_AWAY if answer.is_abandoned else 500)
            answer.is_broken |= answer.has_started and not (answer.is_complete or answer.is_abandoned)
            raise
        finally:
            if answer.is_broken and path_uses_engine(scope):
                self._metrics.count_broken_answer()

    def _count_status(self, scope: Scope, status: int) -> None:
        endpoint = scope["path"] if scope["path"] in COUNTED else "other"
        self._metrics.count_answer(endpoint, status, is_engine_request=path_uses_engine(scope))


class _Answer:
    """One answer on its way to the client. It is broken if it has begun, but the server cannot complete it."""

    def __init__(self) -> None:
        self.has_started = self.is_complete = self.is_broken = self.is_abandoned = False
        self._is_stream, self._open_line = False, b""

    def note_start(self, message: Message) -> None:
        """Note the start of the answer."""
        self.has_started = True
        self._is_stream = any(value.startswith(b"text/event-stream") for _, value in message.get("headers", ()))

    def note_body(self, message: Message) -> None:
        """Note a part of the answer, and the errors in a part of a stream."""
        self.is_complete = not message.get("more_body", False)
        if self._is_stream:
            # Applications send whole events, so the open line is nearly always empty.
            lines, _, self._open_line = (self._open_line + message.get("body", b"")).rpartition(b"\n")
            # This runs for every token, and a search for the word is faster than a search for the expression.
            self.is_broken |= b"error" in lines and ERROR_EVENT.search(lines) is not None


def add_guard(
    app: ASGIApp,
    config: RuntimeConfig,
    metrics: RequestMetrics,
    is_closing: Callable[[], bool],
    max_pixels: int = 0,
    ignored_fields: Mapping[str, object] = MappingProxyType({}),
) -> ASGIApp:
    """Return `app` behind the guard of the model port.

    `max_pixels` limits the images of a request; 0 for a model without images. `ignored_fields` are refused.
    """
    body_app = BodyMiddleware(
        app,
        SequenceAdmission(config.places),
        metrics.track_request,
        max_pixels=max_pixels,
        ignored_fields=ignored_fields,
    )
    guarded_app = AllowedPaths(body_app)
    return GuardMiddleware(require_api_key(guarded_app), is_closing=is_closing, metrics=metrics)
