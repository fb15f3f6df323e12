"""Limits around an application of the model port: allowed paths, number and size of requests, and the closing mode.

A request is checked in this order: the key (api_key), the path (AllowedPaths), and a free place (Queue). Only then its
body is read, checked (body.py) and tokenized.
"""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import EngineName, RuntimeConfig, ServingConfig
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.api_key import behind_key
from gaudi_runtime.http.openai_api.body import Bodies
from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded, error_body
from gaudi_runtime.http.openai_api.media import most_pixels

MAX_BODY_BYTES = 16 * 1024 * 1024
LEAST_CONNECTIONS = 1024
"""The lowest limit of connections, enough for a load test or a gateway's pool. Each takes a few kilobytes."""
COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})
GENERATING = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/v2/embed",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/tokenize",
        "/detokenize",
        "/pooling",
        "/classify",
        "/score",
        "/v1/score",
        "/rerank",
        "/v1/rerank",
        "/v2/rerank",
    }
)
"""Paths of requests that make the engine work: each is a POST, takes a place, and is counted."""
PAGES = frozenset({"/v1/models", "/health", "/version"})
"""Paths that need no engine: each is a GET."""
MODELS = "/v1/models/"
"""The prefix of the paths of single models."""


class Edge:
    """ASGI middleware. While `closing`, every answer makes the client open its next connection elsewhere."""

    def __init__(self, app: ASGIApp, closing: Callable[[], bool], metrics: RequestMetrics) -> None:
        self._app, self._closing, self._metrics = app, closing, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        works = makes_work(scope)
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
                    self._count(scope["path"], 500, works)  # the status of the answer that an outer handler sends
                raise

    def _count(self, path: str, status: int, works: bool) -> None:
        self._metrics.answered(path if path in COUNTED else "other", status, works=works)


def _bounded(receive: Receive) -> Receive:
    # Counted during reading, because a head may have no length, or a wrong one.
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        return message

    return bounded


class AllowedPaths:
    """ASGI middleware that passes only listed paths, whatever routes this or a later release of the application has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return  # WebSockets are not supported
        method = _method(scope["path"])
        if method is None:
            await _no_such_path(scope, receive, send)
            return
        if scope["method"] in (method, "OPTIONS"):  # browsers send OPTIONS first
            await self._app(scope, receive, send)
            return
        body = error_body(f"{scope['path']} requires {method}.", "invalid_request_error")
        await JSONResponse(body, 405, {"Allow": method})(scope, receive, send)


def makes_work(scope: Scope) -> bool:
    """Return whether this request makes the engine work."""
    return scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in GENERATING


def _method(path: str) -> str | None:
    """Return the method of a path; None if the path is not listed."""
    if path in GENERATING:
        return "POST"
    return "GET" if path in PAGES or path.startswith(MODELS) else None


async def _no_such_path(scope: Scope, receive: Receive, send: Send) -> None:
    sentence = "This path does not exist. The page OpenAI API of the manual lists the paths of this server."
    await JSONResponse(error_body(sentence, "invalid_request_error"), 404)(scope, receive, send)


class Admission:
    """Counts sequences from arrival to the end of their answer; used only on the event loop."""

    def __init__(self, running: int, queued: int) -> None:
        self.capacity = running + queued
        self.inside = 0

    def admit(self, sequences: int, held: int = 0) -> ExitStack:
        """Take places for `sequences`, minus the `held` places of the request. They are freed once, after the block.

        Raises Overloaded, or InvalidRequest if there are too few places in all.
        """
        if sequences > self.capacity:
            raise InvalidRequest(
                f"The request asks for {sequences} completions, but this server accepts at most {self.capacity}.", "n"
            )
        more = sequences - held
        if self.inside + more > self.capacity:
            raise Overloaded(f"All {self.capacity} places (queue included) are taken. Try again.", code="queue_full")
        self.inside += more
        ticket = ExitStack()
        ticket.callback(self._leave, more)
        return ticket

    def _leave(self, sequences: int) -> None:
        self.inside -= sequences


class Queue:
    """ASGI middleware: a request for the engine takes a place before its body is read, or gets 429 if none is free."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if not makes_work(scope):
            await self._app(scope, receive, send)
            return
        try:
            ticket = self._admission.admit(1)
        except Overloaded as error:
            await JSONResponse(error.body(), error.status, error.headers)(scope, receive, send)
            return
        with ticket:
            await self._app(scope, receive, send)


def admission_of(config: RuntimeConfig) -> Admission:
    """Return the admission of one model port."""
    return Admission(config.limits.max_num_seqs, config.serving.max_queued_requests)


def guarded(
    app: ASGIApp,
    config: RuntimeConfig,
    metrics: RequestMetrics,
    closing: Callable[[], bool],
    admission: Admission | None = None,
    traced: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> ASGIApp:
    """Return `app` with the limits of the model port. Pass `admission` if `app` counts sequences in it, too.

    `traced` adds traces to an application.
    """
    pixels = most_pixels() if config.engine.name is EngineName.VLLM else 0  # built-in engines take no images
    bodies = Bodies(app, media_options=bool(config.serving.allow_media_options), pixels=pixels)
    inside = AllowedPaths(Queue(bodies, admission or admission_of(config)))
    # Behind the key, so that a client without one causes no traces. Refusals of the queue and of bodies have spans.
    return Edge(behind_key(traced(inside)), closing=closing, metrics=metrics)


def most_connections(serving: ServingConfig, limits: Limits) -> int:
    """Return the limit of the model port: all requests that are answered, and as many idle clients."""
    places = limits.max_num_seqs + serving.max_queued_requests
    return serving.max_connections or max(LEAST_CONNECTIONS, 4 * places)
