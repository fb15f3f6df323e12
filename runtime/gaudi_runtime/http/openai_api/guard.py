"""Bounds around an application of the model port: how many requests, how large, and the closing mode."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.api_key import behind_key
from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded

MAX_BODY_BYTES = 16 * 1024 * 1024
COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})
GENERATING = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/pooling"})
"""Paths of requests that make the engine work."""


class Edge:
    """ASGI middleware. While `closing`, every answer tells the client to open its next connection elsewhere."""

    def __init__(self, app: ASGIApp, closing: Callable[[], bool], metrics: RequestMetrics) -> None:
        self._app, self._closing, self._metrics = app, closing, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
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
                    self._count(scope["path"], 500, works)  # the answer that the exception becomes further out
                raise

    def _count(self, path: str, status: int, works: bool) -> None:
        self._metrics.answered(path if path in COUNTED else "other", status, works=works)


def _bounded(receive: Receive) -> Receive:
    # Counted as it comes: a head may state no length, or a wrong one.
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        return message

    return bounded


class Admission:
    """Counts sequences from arrival to the end of their answer; used in the event loop only."""

    def __init__(self, running: int, queued: int) -> None:
        self.capacity = running + queued
        self.inside = 0

    def admit(self, sequences: int) -> ExitStack:
        """Take `sequences` places; leaving the block gives them back, once.

        Raises Overloaded, or InvalidRequest when even an empty house is too small.
        """
        if sequences > self.capacity:
            raise InvalidRequest(
                f"The request asks for {sequences} completions; this server takes at most {self.capacity}.", "n"
            )
        if self.inside + sequences > self.capacity:
            raise Overloaded(f"All places ({self.capacity} with the queue) are taken; try again.", code="queue_full")
        self.inside += sequences
        ticket = ExitStack()
        ticket.callback(self._leave, sequences)
        return ticket

    def _leave(self, sequences: int) -> None:
        self.inside -= sequences


class Queue:
    """ASGI middleware: requests that make the engine work take a place in the house, and hear 429 when it is full."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] not in GENERATING:
            await self._app(scope, receive, send)
            return
        try:
            ticket = self._admission.admit(1)
        except Overloaded as error:
            await JSONResponse(error.body(), error.status, error.headers)(scope, receive, send)
            return
        with ticket:
            await self._app(scope, receive, send)


def guarded(app: ASGIApp, config: RuntimeConfig, metrics: RequestMetrics, closing: Callable[[], bool]) -> ASGIApp:
    """`app` behind the limits of the model port."""
    admission = Admission(config.limits.max_num_seqs, config.serving.max_queued_requests)
    return Edge(behind_key(Queue(app, admission)), closing=closing, metrics=metrics)
