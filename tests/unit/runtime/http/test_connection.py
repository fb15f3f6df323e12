"""Clients that are slow, that send what others read otherwise, or that come in crowds. Real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from starlette.types import Receive, Scope, Send

from gaudi_runtime.http.connection import ServerLimits
from gaudi_runtime.http.server import http_server
from tests.unit.runtime.configs import free_port

LIMITS = ServerLimits(4096, 620, drain_seconds=1)
SOON = 0.2
"""Seconds of a limit that a test waits for."""
ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
KUBELET, CROWD = "127.0.0.2", "127.0.0.3"


@dataclass
class Application:
    """Answers POST with the body that it has read, GET /hold when it may, GET /much with megabytes, GET with ok."""

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
    """The whole body; what had come where the client has left."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


@dataclass
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes = ASK) -> bytes:
        """Send, and read one whole answer."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        return head + await self.reader.readuntil(b"0\r\n\r\n")

    async def rest(self) -> bytes:
        """All until the server ends the connection; nothing where it does so without a word."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def serving(limits: ServerLimits = LIMITS) -> AsyncIterator[Application]:
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
async def test_first_head_has_its_time(piece: bytes) -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client = await connect(app)
        client.writer.write(piece)
        assert await client.rest() == b""


@pytest.mark.parametrize("piece", [b"GET / HTTP/1.1\r\nHos", b"\r\n"], ids=["half a head", "a line end"])
async def test_head_on_a_kept_connection_has_its_time(piece: bytes) -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client = await connect(app)
        await client.ask()
        client.writer.write(piece)
        assert await client.rest() == b""


async def test_head_that_came_with_the_request_before_has_its_time() -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client = await connect(app)
        await client.ask(ASK + ASK[:20])
        assert await client.rest() == b""


async def test_connection_at_rest_outlives_the_time_of_a_head() -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client, clock = await connect(app), await connect(app)
        await client.ask()
        await clock.rest()
        assert b"200 OK" in await client.ask()


@pytest.mark.parametrize("before", [0, 1], ids=["first", "kept"])
async def test_body_has_its_time(before: int) -> None:
    async with serving(replace(LIMITS, body_seconds=SOON)) as app:
        client = await connect(app)
        for _ in range(before):
            await client.ask()
        client.writer.write(POST + b"abc")
        assert b"HTTP/1.1 408 " in await client.rest()
        await app.ended.wait()


async def test_body_that_goes_on_gets_more_time() -> None:
    async with serving(replace(LIMITS, head_seconds=2 * SOON, body_seconds=SOON, body_rate=1)) as app:
        clock, client = await connect(app), await connect(app)
        client.writer.write(CHUNKED + b"64\r\n" + b"x" * 100 + b"\r\n")
        await clock.rest()
        assert (await client.ask(b"0\r\n\r\n")).count(b"x") == 100


async def test_body_that_nobody_wants_is_thrown_away() -> None:
    async with serving() as app:
        client = await connect(app)
        assert b"ok" in await client.ask(POST.replace(b"/ ", b"/unread "))
        assert b"200 OK" in await client.ask(b"12345" + ASK)


async def test_connection_rests_after_the_body_that_nobody_wanted() -> None:
    async with serving(replace(LIMITS, head_seconds=SOON)) as app:
        client, clock = await connect(app), await connect(app)
        await client.ask(POST.replace(b"/ ", b"/unread "))
        client.writer.write(b"12345")
        await clock.rest()
        assert b"200 OK" in await client.ask()


async def test_endless_body_that_nobody_wants_ends_its_connection() -> None:
    async with serving(replace(LIMITS, discard_seconds=SOON)) as app:
        client = await connect(app)
        await client.ask(CHUNKED.replace(b"/ ", b"/unread "))
        client.writer.write(b"5\r\nabcde\r\n")
        assert await client.rest() == b""


async def test_refused_expectation_ends_its_connection() -> None:
    expecting = POST.replace(b"/ ", b"/unread ").replace(b"Host", b"Expect: 100-continue\r\nHost")
    async with serving() as app:
        client = await connect(app)
        await client.ask(expecting)
        client.writer.write(ASK)
        assert await client.rest() == b""
        assert len(app.scopes) == 1


async def test_client_that_reads_nothing_is_given_up() -> None:
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
async def test_request_that_others_may_read_otherwise_is_refused(head: bytes) -> None:
    async with serving() as app:
        client = await connect(app)
        client.writer.write(head)
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        assert app.scopes == []


async def test_refusal_says_why() -> None:
    async with serving() as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"Host: here\r\n", b""))
        assert (await client.rest()).endswith(b"\r\n\r\nRefused: a request must have exactly one Host header.")


async def test_trailer_is_no_header() -> None:
    async with serving() as app:
        client = await connect(app)
        assert b"abc" in await client.ask(CHUNKED + b"3\r\nabc\r\n0\r\nX-User: root\r\n\r\n")
        assert [name for name, _ in app.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


async def test_refusal_is_no_answer_to_the_request_before() -> None:
    async with serving() as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"/ ", b"/hold ") + b"nonsense\r\n\r\n")
        assert await client.rest() == b""


async def test_crowd_makes_room_for_the_kubelet_at_its_own_cost() -> None:
    async with serving(replace(LIMITS, connections=4)) as app:
        probe = await connect(app, KUBELET)
        await probe.ask()
        crowd = [await connect(app) for _ in range(9)]
        assert b"200 OK" in await probe.ask()
        assert [await each.rest() for each in crowd[:6]] == [b""] * 6
        assert b"200 OK" in await (await connect(app, KUBELET)).ask()
        assert b"200 OK" in await crowd[-1].ask()


async def test_who_is_answered_keeps_his_connection() -> None:
    async with serving(replace(LIMITS, connections=1)) as app:
        client = await connect(app)
        client.writer.write(ASK.replace(b"/ ", b"/hold "))
        await app.held.wait()
        refused = await connect(app)
        assert (await refused.rest()).startswith(b"HTTP/1.1 503 ")
        app.may.set()
        assert b"ok" in await client.reader.readuntil(b"0\r\n\r\n")
