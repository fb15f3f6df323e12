"""One uvicorn server inside our own event loop: our signals, our drain, no access log, heads with bounds.

Connections are uvicorn's own over httptools, which parses in C and h11 in Python: that shows in the time to a first
token when many requests come at once. It has no bound of its own for heads.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gaudi_runtime.errors import PortUnavailable

TICK_SECONDS = 1.0

T = TypeVar("T")


@dataclass(frozen=True)
class ServerLimits:
    """Bounds of one port; times in seconds, sizes in bytes. `connections` None is unbounded.

    A connection on which nothing is asked waits `linger_seconds` for a last request once the server stops.
    """

    header_bytes: int
    keep_alive_seconds: int
    drain_seconds: int
    connections: int | None = None
    first_request_seconds: float = 10.0
    linger_seconds: float = 1.0


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None: uvicorn would take SIGTERM for itself, which belongs to the life of the process (serve.py)."""
        yield

    async def main_loop(self) -> None:
        """Tick until the end."""
        # Once a second (uvicorn: ten times), so that hundreds of idle servers fit one machine.
        while not self.stop.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), TICK_SECONDS)


def bind(port: int) -> socket.socket:
    """A listening socket on all addresses of both families. Raises PortUnavailable."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        listener = socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=1024)
    except OSError as error:
        raise PortUnavailable(
            f"Port {port} cannot be bound: {error.strerror}. Free it or choose another in serving."
        ) from error
    # Connections inherit it; asyncio sets it only where it made the socket itself. Without it the body of an answer
    # waits 40 ms for the client's acknowledgement of the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextlib.asynccontextmanager
async def http_server(
    app: ASGIApp, port: int, limits: ServerLimits, headers: Sequence[tuple[str, str]] = ()
) -> AsyncIterator[None]:
    """Serve `app` on `port` while the block runs; then refuse connections, finish answers, and return.

    Every answer carries `headers`.

    Answers that take longer than `limits.drain_seconds` after the end of the block are cut.
    Raises PortUnavailable.
    """
    listener = bind(port)
    config = uvicorn.Config(
        app,
        http=connection(limits),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(headers),
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.drain_seconds,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.stop.set()
        await task


def get(path: str, answer: Callable[[Request], Awaitable[Response]]) -> Route:
    """A route of GET alone."""
    route = Route(path, answer, methods=["GET"])
    route.methods = {"GET"}  # Starlette adds HEAD to it
    return route


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when the client goes away first; `work` is cancelled then."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def connection(limits: ServerLimits) -> type[HttpToolsProtocol]:
    """A connection that refuses a head that is too long, and is closed when none came in time."""
    head_bytes = limits.header_bytes

    class Bounded(HttpToolsProtocol):
        _unread = 0
        """Bytes that came since a head or a piece of a body was whole."""
        _head = 0
        """Bytes of the headers of this request, those after its body included."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(limits.first_request_seconds, self._drop_if_silent)

        def data_received(self, data: bytes) -> None:
            self._unread += len(data)
            super().data_received(data)
            if self._unread > head_bytes and not self.transport.is_closing():
                self.send_400_response(f"The head of a request may have {head_bytes} bytes.")

        def on_message_begin(self) -> None:
            self._head = 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            self._head += len(name) + len(value)
            if self._head > head_bytes:
                raise ValueError(f"headers of more than {head_bytes} bytes")  # becomes an answer with status 400
            super().on_header(name, value)

        # From here on bytes are those of a body, which has a bound of its own (openai_api/guard.py).
        def on_headers_complete(self) -> None:
            self._unread = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unread = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unread = 0
            super().on_message_complete()

        def _drop_if_silent(self) -> None:
            if self.cycle is None:  # uvicorn's own timeout begins only after a first answer
                self.transport.close()

        def shutdown(self) -> None:
            # An answer that began before the drain did carries no `Connection: close`: its client asks once more, and
            # that request may be on its way already.
            self.timeout_keep_alive = limits.linger_seconds  # type: ignore[assignment]  # asyncio takes parts of one
            if self.cycle is None or self.cycle.response_complete:
                self._unset_keepalive_if_required()
                self.timeout_keep_alive_task = self.loop.call_later(
                    limits.linger_seconds, self.timeout_keep_alive_handler
                )

    return Bounded
