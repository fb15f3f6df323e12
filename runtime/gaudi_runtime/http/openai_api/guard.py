"""The guard of the model port: all limits in front of an application, and the closing mode.

A request passes these checks in order: the key (api_key.py), the path (paths.py), and its body, which is read
(body_reader.py) and checked (body.py). Then it gets a place for each of its sequences (admission.py).
"""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.admission import Admission
from gaudi_runtime.http.openai_api.api_key import require_api_key
from gaudi_runtime.http.openai_api.body import BodyMiddleware
from gaudi_runtime.http.openai_api.media import pixel_limit
from gaudi_runtime.http.openai_api.paths import AllowedPaths, uses_engine

COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})


class GuardMiddleware:
    """ASGI middleware that counts answers.

    While `is_closing` returns True, every answer closes its connection. The client then opens its next connection to
    another pod.
    """

    def __init__(self, app: ASGIApp, is_closing: Callable[[], bool], metrics: RequestMetrics) -> None:
        self._app, self._is_closing, self._metrics = app, is_closing, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        is_engine_request = uses_engine(scope)
        has_started = False

        async def send_and_count(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                if self._is_closing():
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                self._count_answer(scope["path"], message["status"], is_engine_request)
                has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        except Exception:
            if not has_started:
                # An outer handler answers with this status.
                self._count_answer(scope["path"], 500, is_engine_request)
            raise

    def _count_answer(self, path: str, status: int, is_engine_request: bool) -> None:
        self._metrics.count_answer(path if path in COUNTED else "other", status, is_engine_request=is_engine_request)


def add_guard(
    app: ASGIApp,
    config: RuntimeConfig,
    metrics: RequestMetrics,
    is_closing: Callable[[], bool],
    add_tracing: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> ASGIApp:
    """Return `app` behind the guard of the model port. `add_tracing` adds traces to an application."""
    max_pixels = pixel_limit() if config.engine.name is EngineName.VLLM else 0  # built-in engines take no images
    body_app = BodyMiddleware(
        app,
        Admission(config.places),
        metrics.track_request,
        media_options=bool(config.serving.allow_media_options),
        max_pixels=max_pixels,
    )
    guarded_app = AllowedPaths(body_app)
    # Tracing comes after the key check, so that a client without a key causes no traces. Requests that the queue or the
    # body check rejects have spans.
    return GuardMiddleware(require_api_key(add_tracing(guarded_app)), is_closing=is_closing, metrics=metrics)
