"""One uvicorn server in our event loop, with our signal handling, drain and limits, and without an access log."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gaudi_runtime.errors import PortUnavailable
from gaudi_runtime.http.certificate import Certificate
from gaudi_runtime.http.connection import Connection, ConnectionLimits, connection_type
from gaudi_runtime.http.handshake import Handshake

TICK_SECONDS = 1.0

T = TypeVar("T")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, certificate: Certificate | None) -> None:
        super().__init__(config)
        self._connection_type, self._certificate = connection_type(limits), certificate
        self.stop = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the port and start to serve."""
        loop, uses_tls = asyncio.get_running_loop(), self._certificate is not None
        self.servers = [
            await loop.create_server(
                self._create_handshake if uses_tls else self._create_connection,
                sock=listener,
                backlog=self.config.backlog,
            )
            for listener in sockets or ()
        ]
        self.started = True

    def _create_connection(self) -> Connection:
        return self._connection_type(self.config, self.server_state, {})

    def _create_handshake(self) -> Handshake:
        assert self._certificate is not None  # noqa: S101 - there is none without it
        return Handshake(
            self._certificate.context,
            self._connection_type.limits,
            self.server_state.connections,
            self._create_connection,
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing, because serve.py handles SIGTERM instead of uvicorn."""
        yield

    async def main_loop(self) -> None:
        """Run the periodic tasks of the server until it stops."""
        # The loop ticks once a second instead of ten times, so that one machine can run hundreds of idle servers.
        while not self.stop.is_set():
            await self.on_tick(0)
            if self._certificate:
                self._certificate.reload_if_changed()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), TICK_SECONDS)


def bind_server_socket(port: int) -> socket.socket:
    """Return a listening socket for all IPv4 and IPv6 addresses. Raises PortUnavailable."""
    dual_stack = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual_stack else socket.AF_INET
    try:
        listener = socket.create_server(("", port), family=family, dualstack_ipv6=dual_stack, backlog=1024)
    except OSError as error:
        raise PortUnavailable(
            f"Port {port} cannot be opened: {error.strerror}. Free the port, or choose another port in serving."
        ) from error
    # Connections inherit this option, which asyncio sets on its own sockets only. Without the option, the body of an
    # answer waits 40 ms until the client acknowledges the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextlib.asynccontextmanager
async def http_server(
    app: ASGIApp,
    port: int,
    limits: ConnectionLimits,
    headers: Sequence[tuple[str, str]] = (),
    certificate: Certificate | None = None,
) -> AsyncIterator[None]:
    """Serve `app` on `port` during the block; then refuse new connections, finish answers, and return.

    Every answer has `headers`. With a `certificate`, only TLS connections are accepted. Answers that take longer than
    `limits.drain_seconds` after the end of the block are aborted. Raises PortUnavailable.
    """
    listener = bind_server_socket(port)
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(headers),
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.drain_seconds,
    )
    server = _Server(config, limits, certificate)
    server_task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.stop.set()
        await server_task


def get_server_route(path: str, handler: Callable[[Request], Awaitable[Response]]) -> Route:
    """Return a route that answers only GET requests."""
    route = Route(path, handler, methods=["GET"])
    route.methods = {"GET"}  # Starlette also adds HEAD
    return route


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work` for a request. If the client disconnects, cancel `work` and return None."""
    work_task = asyncio.ensure_future(work)
    disconnect_task = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({work_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        return work_task.result() if work_task.done() else None
    finally:
        for task in (work_task, disconnect_task):
            task.cancel()
        await asyncio.gather(work_task, disconnect_task, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
