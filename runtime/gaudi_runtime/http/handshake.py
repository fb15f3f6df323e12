"""A TLS connection of the model port during its handshake.

The connection limit of the port includes connections whose handshake has not ended. asyncio's own server reports a
connection only after the handshake. With that server, clients that send nothing could open connections up to the limit
of open files, and each connection has a buffer of 256 KiB.
"""

import asyncio
import ssl
from collections.abc import Callable

from uvicorn.protocols.utils import get_remote_addr

from gaudi_runtime.http.connection import Connection, ConnectionLimits, Connections, make_room_for_connection

SHUTDOWN_SECONDS = 1.0
"""The time that a client has to answer the end of TLS."""


class Handshake(asyncio.Protocol):
    """A connection during its TLS handshake. After the handshake, `connection` replaces it.

    A client that is rejected or too slow gets no message.
    """

    is_busy = False
    address = ""
    transport: asyncio.Transport
    idle_since = 0.0
    """The time at which the connection was made, on the loop's clock."""

    def __init__(
        self,
        context: ssl.SSLContext,
        limits: ConnectionLimits,
        connections: Connections,
        connection: Callable[[], Connection],
    ) -> None:
        self._context, self._limits, self._connections, self._connection = context, limits, connections, connection
        self._early_data = list[bytes]()
        self._handshake_task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the handshake unless the number of connections exceeds the limit."""
        transport.pause_reading()
        loop = asyncio.get_running_loop()
        self.transport, self.idle_since = transport, loop.time()
        client = get_remote_addr(transport)
        self.address = client[0] if client else ""
        self._connections.add(self)
        if make_room_for_connection(self._connections, self._limits.max_connections, self):
            self._handshake_task = loop.create_task(self._shake_hands(loop))
        else:
            self.evict()

    def data_received(self, data: bytes) -> None:
        """Buffer data that arrives before the handshake is reported as complete."""
        self._early_data.append(data)

    def evict(self) -> None:
        """Close the connection."""
        self._connections.discard(self)
        self.transport.abort()

    def shutdown(self) -> None:
        """Close the connection because the server stops."""
        self.evict()

    async def _shake_hands(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            tls_transport = await loop.start_tls(
                self.transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._limits.head_seconds,
                ssl_shutdown_timeout=self._limits.linger_seconds or SHUTDOWN_SECONDS,
            )
        except OSError:  # includes errors of TLS and timeouts
            return
        finally:
            self._connections.discard(self)
        if tls_transport is None or tls_transport.is_closing():
            return
        connection = self._connection()
        tls_transport.set_protocol(connection)
        connection.connection_made(tls_transport)
        for data in self._early_data:
            connection.data_received(data)
