"""A differential fuzzer of HTTP requests: our connections and h11 never parse different requests from the same bytes.

Fixed seeds give the same requests in every run, built from pieces that parsers are known to read differently. If both
parsers accept a stream, they must read the same requests. If h11 refuses a stream, our connection may read fewer
requests than h11, but not more.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import h11
import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from gaudi_runtime.http.connection import Connection, ConnectionLimits, connection_type

LIMITS = ConnectionLimits(4096, 620, drain_seconds=1)
SEEDS, STREAMS = range(4), 200
"""For each seed, this many streams of up to three requests."""

LINE_ENDS = [b"\r\n"] * 150 + [b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\0\r\n"]
METHODS = [b"GET"] * 30 + [b"POST"] * 90 + [b"HEAD", b"OPTIONS", b"CONNECT", b"PRI", b"get", b"G@T", b"", b"GET GET"]
TARGETS = [b"/"] * 100 + [
    b"/a?b=c",
    b"*",
    b"http://other/x",
    b"/%2e%2e/",
    b"/a b",
    b"\\",
    b"/\xff",
    b"//x",
    b"x:1",
    b"",
]
VERSIONS = [b"HTTP/1.1"] * 100 + [b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b""]
FIELDS = [
    b"Host: here",
    b"Host: there",
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"Content-Length: 05",
    b"Content-Length: +5",
    b"Content-Length: -5",
    b"Content-Length: 5, 5",
    b"Content-Length: 0x5",
    b"Content-Length: 18446744073709551621",
    b"Content-Length:",
    b"Content-Length : 5",
    b"Content_Length: 5",
    b"Content-Length: 5 ",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: x",
    b"Transfer-Encoding : chunked",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: Upgrade\r\nUpgrade: h2c",
    b"Upgrade: websocket",
    b"Expect: 100-continue",
    b" folded: yes",
    b"\tfolded",
    b": empty",
    b"no colon",
    b"X: \xe9\x80",
    b"X: a\0b",
    b"X: a\rb",
    b"X: " + b"y" * 500,
]
BODIES = [
    b"12345",
    b"5\r\n12345\r\n0\r\n\r\n",
    b"5;a=b\r\n12345\r\n0\r\n\r\n",
    b"5\n12345\n0\n\n",
    b"05\r\n12345\r\n0\r\n\r\n",
    b"0x5\r\n12345\r\n0\r\n\r\n",
    b"5\r\n12345\r\n0\r\nX: trailer\r\n\r\n",
    b"5\r\n12345\r\n0\r\nContent-Length: 9\r\n\r\n",
    b"6\r\n12345\r\n0\r\n\r\n",
    b"ffffffffffffffff1\r\n12345\r\n0\r\n\r\n",
    b"5 \r\n12345\r\n0\r\n\r\n",
    b"-5\r\n12345\r\n0\r\n\r\n",
    b"",
]


@dataclass(frozen=True)
class ParsedRequest:
    """One complete request, as a parser understood it."""

    method: bytes
    target: bytes
    host: tuple[bytes, ...]
    body: bytes


def stream(chance: random.Random) -> bytes:
    """Return up to three mostly valid requests on one connection."""
    return b"".join(_request(chance) for _ in range(chance.randint(1, 3)))


def _request(chance: random.Random) -> bytes:
    fields = [b"Host: here"] if chance.random() < 0.98 else []
    framed = chance.random()
    if framed < 0.35:
        fields, body = [*fields, b"Content-Length: 5"], b"12345"
    elif framed < 0.7:
        fields = [*fields, b"Transfer-Encoding: chunked"]
        body = BODIES[1] if chance.random() < 0.8 else chance.choice(BODIES)
    else:
        body = chance.choice(BODIES) if chance.random() < 0.1 else b""
    if chance.random() < 0.4:
        fields = [*fields, *chance.choices(FIELDS, k=chance.randint(1, 2))]
        chance.shuffle(fields)
    first = b" ".join((chance.choice(METHODS), chance.choice(TARGETS), chance.choice(VERSIONS)))
    lines = b"".join(line + chance.choice(LINE_ENDS) for line in (first, *fields))
    request = bytearray(lines + chance.choice(LINE_ENDS) + body)
    if request and chance.random() < 0.05:
        request[chance.randrange(len(request))] = chance.randrange(256)
    return bytes(request)


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Split the data into pieces, as a network may do."""
    while data:
        size = chance.choice((1, 2, 7, len(data), len(data)))
        yield data[:size]
        data = data[size:]


class Wire(asyncio.Transport):
    """A transport that stores its output."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Store the data."""
        self.written += bytes(data)

    def close(self) -> None:
        """Close the transport, after which no more data is read."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Return True after `close`."""
        return self.closed

    def pause_reading(self) -> None:
        """Do nothing. The test delivers data even while reading is paused."""

    resume_reading = pause_reading


@dataclass
class Ours:
    """An application that reads every body, and our connection in front of the application."""

    read: list[ParsedRequest] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read and record one request."""
        body, more = b"", True
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        hosts = tuple(value for name, value in scope["headers"] if name == b"host")
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        self.read.append(ParsedRequest(scope["method"].encode(), target, hosts, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def feed(self, data: bytes, chance: random.Random) -> Wire:
        """Deliver `data` to a connection in pieces, and return the transport."""
        config = uvicorn.Config(self, ws="none", lifespan="off", log_config=None, access_log=False)
        wire, state = Wire(), ServerState()
        connection: Connection = connection_type(LIMITS)(config, state, {})
        connection.connection_made(wire)
        for piece in pieces(data, chance):
            if wire.closed:
                break
            connection.data_received(piece)
            await run_tasks(state)
        await run_tasks(state)
        connection.connection_lost(None)
        await run_tasks(state)
        assert not state.tasks, "no request hangs once its connection is lost"
        return wire


async def run_tasks(state: ServerState) -> None:
    """Let every task run as far as possible."""
    for _ in range(6):
        await asyncio.sleep(0)


def read_with_h11(data: bytes) -> tuple[list[ParsedRequest], bool]:
    """Return the requests that h11 reads, and whether it refuses the rest."""
    parser, read = h11.Connection(h11.SERVER), list[ParsedRequest]()
    parser.receive_data(data)
    try:
        while True:
            body = b""
            event = parser.next_event()
            if not isinstance(event, h11.Request):
                return read, False
            request = event
            while not isinstance(event := parser.next_event(), h11.EndOfMessage):
                if not isinstance(event, h11.Data):
                    return read, False
                body += bytes(event.data)
            hosts = tuple(value for name, value in request.headers if name == b"host")
            read.append(ParsedRequest(request.method, _path(request.target), hosts, body))
            parser.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            parser.send(h11.EndOfMessage())
            if parser.our_state is not h11.DONE or parser.their_state is not h11.DONE:
                return read, False
            parser.start_next_cycle()
    except h11.LocalProtocolError:  # A CONNECT is never answered.
        return read, False
    except h11.RemoteProtocolError:
        return read, True


def _path(target: bytes) -> bytes:
    """Return the path for an application, without scheme and host."""
    for scheme in (b"http://", b"https://"):
        if target.lower().startswith(scheme):
            return b"/" + target[len(scheme) :].partition(b"/")[2]
    return target


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_streams_are_parsed_like_h11(seed: int) -> None:
    chance, agreed = random.Random(seed), 0  # noqa: S311  # seeded
    for _ in range(STREAMS):
        data = stream(chance)
        ours = Ours()
        wire = await ours.feed(data, chance)
        other, refused = read_with_h11(data)
        common = min(len(ours.read), len(other))
        assert ours.read[:common] == other[:common], data
        assert len(ours.read) <= len(other) or refused, data
        assert b" 500 " not in wire.written, data
        agreed += common
    assert agreed > STREAMS // 3, "most of what is tried has to be read by both"


@pytest.mark.parametrize("seed", SEEDS)
async def test_split_streams_are_parsed_like_whole_streams(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    for _ in range(STREAMS // 2):
        data = stream(chance)
        whole, cut = Ours(), Ours()
        await whole.feed(data, random.Random(0))  # noqa: S311
        await cut.feed(data, chance)
        assert whole.read == cut.read, data
