"""Either end of a group's connection by hand: what a test says to a real leader, or to a real rank."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gaudi_runtime.contract.base import Wire
from gaudi_runtime.engine_protocol.messages import MOST_LINE_BYTES, Hello, LeaderMessage, Update, encode_message
from gaudi_runtime.group.peers import Pace

HOST = "127.0.0.1"
LEADER = "127.0.0.2"
"""Of this machine, too, and where nobody gets by chance."""
PATIENT = Pace(beat=3600, silence=3600, look=0.001, parting=0, closing=3600)
"""Whoever waits, waits for what the test does; a leader that parts waits for nobody."""

QUICK = pytest.mark.timeout(10)
"""Of tests within one process: what they wait for, they do themselves, so what never comes is known soon."""


class End:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    def say(self, message: Wire) -> None:
        """Send one message."""
        self._writer.write(encode_message(message))

    def say_bytes(self, text: bytes) -> None:
        """Send what may be no message."""
        self._writer.write(text)

    async def hello(self) -> Hello:
        """What a rank says first."""
        return Hello.model_validate_json(await self.reader.readline())

    async def order(self) -> LeaderMessage:
        """The leader's next order that is more than a sign of life."""
        while (order := LeaderMessage.model_validate_json(await self.reader.readline())) == LeaderMessage():
            pass
        return order

    async def update(self) -> Update:
        """What a rank tells next, signs of life included."""
        return Update.model_validate_json(await self.reader.readline())

    async def hung_up(self) -> bool:
        """Whether the other end closes, having said nothing more than that it lives."""
        return not (await self.reader.read()).replace(encode_message(LeaderMessage()), b"")

    def hang_up(self) -> None:
        """Close in good order."""
        self._writer.close()

    def reset(self) -> None:
        """Close as the kernel does for a process that ends with something unread."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


@asynccontextmanager
async def rank_by_hand(port: int, hello: Hello | None = None, source: str = HOST) -> AsyncIterator[End]:
    """Connect to a leader from the address `source`, and send it `hello`."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=MOST_LINE_BYTES, local_addr=(source, 0))
    end = End(reader, writer)
    if hello:
        end.say(hello)
    try:
        yield end
    finally:
        end.hang_up()


@asynccontextmanager
async def leader_by_hand(port: int) -> AsyncIterator["asyncio.Queue[End]"]:
    """The connections that ranks make, as they come."""
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
                end.hang_up()
