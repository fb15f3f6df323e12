"""One end of a group's connection, with which a test exchanges messages with a real leader or rank."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gaudi_runtime.contract.base import WireModel
from gaudi_runtime.engine_protocol.messages import (
    MOST_LINE_BYTES,
    HelloMessage,
    LeaderMessage,
    UpdateMessage,
    encode_message,
)
from gaudi_runtime.group.peers import Pace

HOST = "127.0.0.1"
LEADER = "127.0.0.2"
"""A second loopback address of this machine, which no connection gets by default."""
NO_TIMEOUTS = Pace(
    heartbeat_seconds=3600, silence_seconds=3600, poll_seconds=0.001, farewell_seconds=0, close_seconds=3600
)
"""Timings so long that only the test causes events. A leader does not wait when it closes."""

QUICK = pytest.mark.timeout(10)
"""A short limit for tests within one process, which wait only for events that they cause."""


class End:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    def send(self, message: WireModel) -> None:
        """Send one message."""
        self._writer.write(encode_message(message))

    def send_bytes(self, text: bytes) -> None:
        """Send bytes, which may be an invalid message."""
        self._writer.write(text)

    async def hello(self) -> HelloMessage:
        """Return the first message of a rank."""
        return HelloMessage.model_validate_json(await self.reader.readline())

    async def order(self) -> LeaderMessage:
        """Return the leader's next order. Heartbeats are skipped."""
        while (order := LeaderMessage.model_validate_json(await self.reader.readline())) == LeaderMessage():
            pass
        return order

    async def update(self) -> UpdateMessage:
        """Return the next message of a rank, including heartbeats."""
        return UpdateMessage.model_validate_json(await self.reader.readline())

    async def is_closed(self) -> bool:
        """Return True if the other end closes after it has sent nothing or only heartbeats."""
        return not (await self.reader.read()).replace(encode_message(LeaderMessage()), b"")

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def reset(self) -> None:
        """Reset the connection, as the kernel does for a process that ends with unread data."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


@asynccontextmanager
async def connect_rank(port: int, hello: HelloMessage | None = None, source: str = HOST) -> AsyncIterator[End]:
    """Connect to a leader from the address `source`, and send `hello` if it is given."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=MOST_LINE_BYTES, local_addr=(source, 0))
    end = End(reader, writer)
    if hello:
        end.send(hello)
    try:
        yield end
    finally:
        end.close()


@asynccontextmanager
async def serve_leader(port: int) -> AsyncIterator["asyncio.Queue[End]"]:
    """Run a fake leader, and yield a queue with the connections of the ranks."""
    joined: asyncio.Queue[End] = asyncio.Queue()
    ends: list[End] = []

    def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(End(reader, writer))
        joined.put_nowait(ends[-1])

    async with await asyncio.start_server(join, LEADER, port, limit=MOST_LINE_BYTES):
        try:
            yield joined
        finally:
            for end in ends:
                end.close()
