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
    """ASGI middleware that counts answers and limits bodies. While `closing`, every answer closes its connection.

    The client then opens its next connection to another pod.
    """

    def __init__(self, app: ASGIApp, closing: Callable[[], bool], metrics: RequestMetrics) -> None:
        self._app, self._closing, self._metrics = app, closing, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        works = uses_engine(scope)
        begun = False

        async def send_and_count(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                if self._closing():
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                self._count_answer(scope["path"], message["status"], works)
                begun = True
            await send(message)

        with self._metrics.track_request() if works else nullcontext():
            try:
                await self._app(scope, _limit_body(receive), send_and_count)
            except Exception:
                if not begun:
                    self._count_answer(
                        scope["path"], 500, works
                    )  # the status of the answer that an outer handler sends
                raise

    def _count_answer(self, path: str, status: int, works: bool) -> None:
        self._metrics.count_answer(path if path in COUNTED else "other", status, works=works)


def _limit_body(receive: Receive) -> Receive:
    # Bytes are counted while the body is read, because the head may state no length or a wrong length.
    taken = 0

    async def receive_limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        return message

    return receive_limited


def add_guard(
    app: ASGIApp,
    config: RuntimeConfig,
    metrics: RequestMetrics,
    closing: Callable[[], bool],
    admission: Admission | None = None,
    traced: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> ASGIApp:
    """Return `app` behind the guard of the model port. Pass `admission` if `app` also counts sequences with it.

    `traced` adds traces to an application.
    """
    pixels = pixel_limit() if config.engine.name is EngineName.VLLM else 0  # built-in engines take no images
    bodies = BodyMiddleware(app, media_options=bool(config.serving.allow_media_options), pixels=pixels)
    inside = AllowedPaths(AdmissionMiddleware(bodies, admission or create_admission(config)))
    # Tracing comes after the key check, so that a client without a key causes no traces. Requests that the queue or the
    # body check rejects have spans.
    return GuardMiddleware(require_api_key(traced(inside)), closing=closing, metrics=metrics)
