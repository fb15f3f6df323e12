"""A connection of the model port that speaks TLS, until it does: it counts among the connections from its first moment.

asyncio's own server tells a protocol of a connection after the handshake: whoever opens very many and says nothing
would be bounded by files alone, with a buffer of 256 KiB for each.
"""

import asyncio
import ssl
from collections.abc import Callable

from uvicorn.protocols.utils import get_remote_addr

from gaudi_runtime.http.connection import Connection, Crowd, ServerLimits, make_room

SHUTDOWN_SECONDS = 1.0
"""For a client's answer to the end of TLS."""


class Handshake(asyncio.Protocol):
    """What a connection is before `connection` makes it one; without a sentence for who is refused or too slow."""

    is_answered = False
    address = ""
    transport: asyncio.Transport
    rests_since = 0.0
    """When the connection was made, on the loop's clock."""

    def __init__(
        self, context: ssl.SSLContext, limits: ServerLimits, crowd: Crowd, connection: Callable[[], Connection]
    ) -> None:
        self._context, self._limits, self._crowd, self._connection = context, limits, crowd, connection
        self._early = list[bytes]()
        self._work: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, as far as there is room."""
        transport.pause_reading()
        loop = asyncio.get_running_loop()
        self.transport, self.rests_since = transport, loop.time()
        client = get_remote_addr(transport)
        self.address = client[0] if client else ""
        self._crowd.add(self)
        if make_room(self._crowd, self._limits.connections, self):
            self._work = loop.create_task(self._shake_hands(loop))
        else:
            self.leave()

    def data_received(self, data: bytes) -> None:
        """Keep what comes in the moment before the handshake is known to be done."""
        self._early.append(data)

    def leave(self) -> None:
        """End it."""
        self._crowd.discard(self)
        self.transport.abort()

    def shutdown(self) -> None:
        """The server stops."""
        self.leave()

    async def _shake_hands(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            secured = await loop.start_tls(
                self.transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._limits.head_seconds,
                ssl_shutdown_timeout=self._limits.linger_seconds or SHUTDOWN_SECONDS,
            )
        except OSError:  # errors of TLS and of time are some, too
            return
        finally:
            self._crowd.discard(self)
        if secured is None or secured.is_closing():
            return
        connection = self._connection()
        secured.set_protocol(connection)
        connection.connection_made(secured)
        for data in self._early:
            connection.data_received(data)
