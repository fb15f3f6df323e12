"""What happens to every request before and after the routes: a bound on the body, a count, and the closing mode."""

from collections.abc import Callable

from prometheus_client import Counter
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 16 * 1024 * 1024
COUNTED = frozenset({"/v1/models", "/v1/completions", "/v1/chat/completions", "/health"})


class Edge:
    """ASGI middleware. While `closing`, every answer tells the client to open its next connection elsewhere."""

    def __init__(self, app: ASGIApp, closing: Callable[[], bool], requests: Counter) -> None:
        self._app, self._closing, self._requests = app, closing, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                if self._closing():
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                path = scope["path"] if scope["path"] in COUNTED else "other"
                self._requests.labels(path, str(message["status"])).inc()
            await send(message)

        await self._app(scope, _bounded(receive), counted_send)


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
