"""The guard of the model port: all limits in front of an application, and the closing mode.

A request passes these checks in order: the key (api_key.py), the path (paths.py), and a free place (admission.py).
After that, the body is read, checked (body.py) and tokenized.
"""

from collections.abc import Callable
from contextlib import nullcontext

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.admission import Admission, AdmissionMiddleware, create_admission
from gaudi_runtime.http.openai_api.api_key import require_api_key
from gaudi_runtime.http.openai_api.body import BodyMiddleware
from gaudi_runtime.http.openai_api.media import pixel_limit
from gaudi_runtime.http.openai_api.paths import AllowedPaths, uses_engine

MAX_BODY_BYTES = 16 * 1024 * 1024
COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})


class GuardMiddleware:
    """ASGI middleware that counts answers and limits bodies.

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

        with self._metrics.track_request() if is_engine_request else nullcontext():
            try:
                await self._app(scope, _limit_body(receive), send_and_count)
            except Exception:
                if not has_started:
                    # An outer handler answers with this status.
                    self._count_answer(scope["path"], 500, is_engine_request)
                raise

    def _count_answer(self, path: str, status: int, is_engine_request: bool) -> None:
        self._metrics.count_answer(path if path in COUNTED else "other", status, is_engine_request=is_engine_request)


def _limit_body(receive: Receive) -> Receive:
    # Bytes are counted while the body is read, because the head may state no length or a wrong length.
    received_bytes = 0

    async def receive_limited() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        return message

    return receive_limited


def add_guard(
    app: ASGIApp,
    config: RuntimeConfig,
    metrics: RequestMetrics,
    is_closing: Callable[[], bool],
    admission: Admission | None = None,
    add_tracing: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> ASGIApp:
    """Return `app` behind the guard of the model port. Pass `admission` if `app` also counts sequences with it.

    `add_tracing` adds traces to an application.
    """
    max_pixels = pixel_limit() if config.engine.name is EngineName.VLLM else 0  # built-in engines take no images
    body_app = BodyMiddleware(app, media_options=bool(config.serving.allow_media_options), max_pixels=max_pixels)
    guarded_app = AllowedPaths(AdmissionMiddleware(body_app, admission or create_admission(config)))
    # Tracing comes after the key check, so that a client without a key causes no traces. Requests that the queue or the
    # body check rejects have spans.
    return GuardMiddleware(require_api_key(add_tracing(guarded_app)), is_closing=is_closing, metrics=metrics)
