"""Slow clients, ambiguous requests, and too many clients, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from starlette.types import Receive, Scope, Send

from gaudi_runtime.http.connection import ConnectionLimits, connection_limit
from gaudi_runtime.http.server import http_server
from gaudi_runtime.http.status_api import STATUS_LIMITS
from tests.unit.runtime.configs import free_port, sim_config

LIMITS = ConnectionLimits(4096, 620, drain_seconds=1)
SOON = 0.2
"""The seconds of a timeout that a test waits for."""
ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
KUBELET, CROWD = "127.0.0.2", "127.0.0.3"


@dataclass
class Application:
    """An application that returns the body of a POST, and `ok` for most GETs.

    GET /hold waits for a release, and GET /much returns megabytes.
    """

    port: int
    may: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    scopes: list[Scope] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    clients: list["Client"] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.scopes.append(scope)
        body = b"ok"
        if scope["path"] == "/hold":
            self.held.set()
            await self.may.wait()
        if scope["path"] == "/much":
            body = bytes(1 << 16)
        if scope["method"] == "POST" and scope["path"] != "/unread":
            body = await read(receive)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000 if scope["path"] == "/much" else 0):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": body})
        finally:
            self.ended.set()


async def read(receive: Receive) -> bytes:
    """Return the body, or the part that arrived before the client disconnected."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


@dataclass
class Client:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, request: bytes = ASK) -> bytes:
        """Send a request, and return the complete response."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        return head + await self.reader.readuntil(b"0\r\n\r\n")

    async def read_to_end(self) -> bytes:
        """Return all data until the server ends the connection. The result may be empty."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def serving(limits: ConnectionLimits = LIMITS) -> AsyncIterator[Application]:
    app = Application(free_port())
    async with asyncio.timeout(30), http_server(app, app.port, limits):
        yield app
        app.may.set()
        for client in app.clients:
            client.writer.close()


async def connect(app: Application, address: str = CROWD) -> Client:
    app.clients.append(Client(*await asyncio.open_connection("127.0.0.1", app.port, local_addr=(address, 0))))
    return app.clients[-1]


@pytest.mark.parametrize(
    "piece", [b"", b"GET / HTTP/1.1\r\nHos", b"\r\n"], ids=["nothing", "half a head", "a line end"]
)
async def test_first_head_has_a_timeout(piece: bytes) -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client = await connect(app)
        client.writer.write(piece)
        assert await client.read_to_end() == b""


@pytest.mark.parametrize("piece", [b"GET / HTTP/1.1\r\nHos", b"\r\n"], ids=["half a head", "a line end"])
async def test_head_on_a_kept_connection_has_a_timeout(piece: bytes) -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client = await connect(app)
        await client.exchange()
        client.writer.write(piece)
        assert await client.read_to_end() == b""


async def test_pipelined_head_has_a_timeout() -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client = await connect(app)
        await client.exchange(ASK + ASK[:20])
        assert await client.read_to_end() == b""


async def test_idle_connection_outlives_the_head_timeout() -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client, clock = await connect(app), await connect(app)
        await client.exchange()
        await clock.read_to_end()
        assert b"200 OK" in await client.exchange()


@pytest.mark.parametrize("before", [0, 1], ids=["first", "kept"])
async def test_body_has_a_timeout(before: int) -> None:
    async with serving(replace(LIMITS, body_seconds=SOON)) as app:
        client = await connect(app)
        for _ in range(before):
            await client.exchange()
        client.writer.write(POST + b"abc")
        assert b"HTTP/1.1 408 " in await client.read_to_end()
        await app.ended.wait()


async def test_received_data_extends_the_body_timeout() -> None:
    async with serving(replace(LIMITS, head_seconds=2 * SOON, body_seconds=SOON, body_rate=1)) as app:
        clock, client = await connect(app), await connect(app)
        client.writer.write(CHUNKED + b"64\r\n" + b"x" * 100 + b"\r\n")
        await clock.read_to_end()
        assert (await client.exchange(b"0\r\n\r\n")).count(b"x") == 100


async def test_unread_body_is_discarded() -> None:
    async with serving() as app:
        client = await connect(app)
        assert b"ok" in await client.exchange(POST.replace(b"/ ", b"/unread "))
        assert b"200 OK" in await client.exchange(b"12345" + ASK)


async def test_connection_is_idle_after_a_discarded_body() -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client, clock = await connect(app), await connect(app)
        await client.exchange(POST.replace(b"/ ", b"/unread "))
        client.writer.write(b"12345")
        await clock.read_to_end()
        assert b"200 OK" in await client.exchange()


async def test_endless_unread_body_ends_its_connection() -> None:
    async with serving(replace(LIMITS, discard_seconds=SOON)) as app:
        client = await connect(app)
        await client.exchange(CHUNKED.replace(b"/ ", b"/unread "))
        client.writer.write(b"5\r\nabcde\r\n")
        assert await client.read_to_end() == b""


async def test_refused_expectation_ends_its_connection() -> None:
    expecting = POST.replace(b"/ ", b"/unread ").replace(b"Host", b"Expect: 100-continue\r\nHost")
    async with serving() as app:
        client = await connect(app)
        await client.exchange(expecting)
        client.writer.write(ASK)
        assert await client.read_to_end() == b""
        assert len(app.scopes) == 1


async def test_client_that_reads_nothing_is_disconnected() -> None:
    async with serving(replace(LIMITS, reader_seconds=SOON)) as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"/ ", b"/much "))
        await app.ended.wait()


@pytest.mark.parametrize(
    "head",
    [
        ASK.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
        POST.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n") + b"12345",
        ASK.replace(b"GET / ", b"CONNECT here:1 "),
        ASK.replace(b"Host: here", b"Host: here\r\nHost: there"),
        ASK.replace(b"Host: here", b"Hast: here"),
        ASK.replace(b"1.1", b"2.0"),
        POST.replace(b"Content-Length: 5", b"Content-Length: 5\r\nTransfer-Encoding: chunked"),
        POST.replace(b"Content-Length: 5", b"Content-Length: 5\r\nContent-Length: 5"),
        CHUNKED.replace(b"chunked", b"gzip, chunked"),
        CHUNKED.replace(b"chunked", b"chunked\r\nTransfer-Encoding: chunked"),
        CHUNKED.replace(b"1.1", b"1.0"),
        ASK.replace(b"\r\nHost", b"\nHost"),
        ASK.replace(b"Host:", b"Host :"),
        ASK.replace(b"here\r\n", b"here\r\n folded\r\n"),
    ],
)
async def test_ambiguous_request_is_refused(head: bytes) -> None:
    async with serving() as app:
        client = await connect(app)
        client.writer.write(head)
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 400 ")
        assert app.scopes == []


async def test_refused_request_gets_a_reason() -> None:
    async with serving() as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"Host: here\r\n", b""))
        assert (await client.read_to_end()).endswith(b"\r\n\r\nRefused: a request must have exactly one Host header.")


async def test_trailer_is_not_added_to_the_headers() -> None:
    async with serving() as app:
        client = await connect(app)
        assert b"abc" in await client.exchange(CHUNKED + b"3\r\nabc\r\n0\r\nX-User: root\r\n\r\n")
        assert [name for name, _ in app.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


async def test_invalid_request_does_not_answer_the_previous_request() -> None:
    async with serving() as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"/ ", b"/hold ") + b"nonsense\r\n\r\n")
        assert await client.read_to_end() == b""


async def test_idle_connections_are_closed_before_those_of_the_kubelet() -> None:
    async with serving(replace(LIMITS, max_connections=4)) as app:
        probe = await connect(app, KUBELET)
        await probe.exchange()
        crowd = [await connect(app) for _ in range(9)]
        assert b"200 OK" in await probe.exchange()
        assert [await each.read_to_end() for each in crowd[:6]] == [b""] * 6
        assert b"200 OK" in await (await connect(app, KUBELET)).exchange()
        assert b"200 OK" in await crowd[-1].exchange()


async def test_new_connection_is_refused_while_a_request_runs() -> None:
    async with serving(replace(LIMITS, max_connections=1)) as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"/ ", b"/hold "))
        await app.held.wait()
        refused = await connect(app)
        assert (await refused.read_to_end()).startswith(b"HTTP/1.1 503 ")
        app.may.set()
        assert b"ok" in await client.reader.readuntil(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("requested", "places", "connections"),
    [({}, 64, 1280), ({"max_queued_requests": 0}, 8, 1024)],
)
def test_connection_limit_is_derived_from_sequences_and_queue(
    requested: dict[str, int], places: int, connections: int
) -> None:
    assert connection_limit(sim_config(serving=requested, max_num_seqs=places)) == connections


def test_timeouts_equal_the_documented_values() -> None:
    found = ConnectionLimits(header_bytes=1, keep_alive_seconds=1, drain_seconds=1)
    assert (found.head_seconds, found.body_seconds, found.body_rate) == (10, 60, 16 * 1024)
    assert (found.discard_seconds, found.reader_seconds) == (5, 60)


def test_status_port_has_lower_limits() -> None:
    found = STATUS_LIMITS
    assert (found.header_bytes, found.keep_alive_seconds, found.max_connections) == (8 * 1024, 75, 128)
