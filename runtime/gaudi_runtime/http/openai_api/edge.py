"""What happens to every request before and after the routes: a bound on the body, a count, and the closing mode."""

from collections.abc import Callable
from contextlib import nullcontext

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.http.metrics import RequestMetrics

MAX_BODY_BYTES = 16 * 1024 * 1024
COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})
GENERATING = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/pooling"})
"""Paths of requests that make the engine work."""


class Edge:
    """ASGI middleware. While `closing`, every answer tells the client to open its next connection elsewhere."""

    def __init__(self, app: ASGIApp, closing: Callable[[], bool], metrics: RequestMetrics) -> None:
        self._app, self._closing, self._metrics = app, closing, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. An exception that passes by becomes an answer with status 500 further out."""
        works = scope["type"] == "http" and scope["path"] in GENERATING
        begun = False

        async def counted_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                if self._closing():
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                self._count(scope["path"], message["status"], works)
                begun = True
            await send(message)

        with self._metrics.request() if works else nullcontext():
            try:
                await self._app(scope, _bounded(receive), counted_send)
            except Exception:
                if not begun:
                    self._count(scope["path"], 500, works)
                raise

    def _count(self, path: str, status: int, works: bool) -> None:
        self._metrics.answered(path if path in COUNTED else "other", status, works=works)


def _bounded(receive: Receive) -> Receive:
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        return message

    return bounded
