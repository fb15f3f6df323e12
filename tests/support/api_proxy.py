"""A TCP proxy to the API server. It delays answers and breaks connections."""

import asyncio
import contextlib
from typing import Self

_CHUNK = 65_536


class ApiProxy:
    """A relay of TCP connections from a separate port to the API server. Use an instance as an async context manager.

    The proxy does not terminate TLS. Clients receive the API server's own certificate, so `host` must be an address in
    this certificate.
    """

    def __init__(self, host: str, port: int) -> None:
        """Create a proxy for the API server at `host` and `port`. The proxy listens on the same host."""
        self._host, self._port = host, port
        self._answering, self._open = asyncio.Event(), asyncio.Event()
        self._answering.set()
        self._open.set()
        self._relays: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Start listening."""
        self._server = await asyncio.start_server(self._accept, self._host, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections and stop listening."""
        self._server.close()
        self._break()
        await asyncio.gather(*self._relays, return_exceptions=True)

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"https://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    async def hold_answers(self, seconds: float) -> None:
        """Delay all answers, including watch events, for `seconds`. Requests still reach the server."""
        self._answering.clear()
        await asyncio.sleep(seconds)
        self._answering.set()

    async def refuse(self, seconds: float) -> None:
        """Break all connections, and refuse new connections for `seconds`."""
        self._open.clear()
        self._break()
        await asyncio.sleep(seconds)
        self._open.set()

    def _break(self) -> None:
        for relay in self._relays:
            relay.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._relays.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                if self._open.is_set():
                    await self._relay(reader, writer)
        finally:
            self._relays.discard(task)
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection. If the caller is cancelled, close the connection, because asyncio may lose it."""
        connecting = asyncio.create_task(asyncio.open_connection(self._host, self._port))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_abandon)
            raise

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self._connect()
        always = asyncio.Event()
        always.set()
        ways = (_pass_on(reader, to_server, always), _pass_on(from_server, writer, self._answering))
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_server.transport.abort()  # Close immediately, because a second cancellation would end any await here.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _abandon(connecting: "asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]") -> None:
    if not connecting.cancelled() and not connecting.exception():
        connecting.result()[1].transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, allowed: asyncio.Event) -> None:
    while data := await reader.read(_CHUNK):
        await allowed.wait()
        writer.write(data)
        await writer.drain()
