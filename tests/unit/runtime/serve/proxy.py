"""A small Service like kube-proxy: new connections go to the chosen pod, and open connections keep their pod."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """A proxy that routes every new connection to `backend`, a port on this machine."""

    def __init__(self, backend: int) -> None:
        self.backend = backend
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open a connection to the backend, and forward data between the client and the backend."""
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.backend)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pipe(reader, upstream_writer), _pipe(upstream_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        writer.transport.abort()
    finally:
        writer.close()


@asynccontextmanager
async def proxy(backend: int) -> AsyncIterator[Proxy]:
    """Run a proxy on a free port during the block."""
    routes = Proxy(backend)
    server = await asyncio.start_server(routes.accept, "127.0.0.1", 0)
    routes.port = server.sockets[0].getsockname()[1]
    async with server:
        yield routes
