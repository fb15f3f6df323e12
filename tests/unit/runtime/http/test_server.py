"""Limits for new connections to each port, and the shutdown of the server."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from gaudi_runtime.http.connection import ConnectionLimits
from gaudi_runtime.http.server import bind_server_socket, http_server
from gaudi_runtime.process.open_files import raise_open_file_limit
from tests.unit.runtime.configs import free_port

ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\n"


def test_file_limit_is_raised_to_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        raise_open_file_limit(768)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (768, hard)
        raise_open_file_limit(600)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (768, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connection_disables_the_nagle_algorithm() -> None:
    with bind_server_socket(0) as listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_answer_that_ends_after_the_stop_closes_its_connection() -> None:
    asked, stopped, port = asyncio.Event(), asyncio.Event(), free_port()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        closing = [(b"connection", b"close")] if stopped.is_set() else []  # The header as it was when the answer began.
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2"), *closing]})
        asked.set()
        await stopped.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    async with AsyncExitStack() as server:
        await server.enter_async_context(http_server(app, port, ConnectionLimits(65536, 620, drain_seconds=20)))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK)
        await asked.wait()
        stopping = asyncio.create_task(server.aclose())
        await wait_until_refused(port)
        stopped.set()
        assert b"connection: close" not in await answer(reader)
        writer.write(ASK)
        assert b"connection: close" in await answer(reader)
        assert await reader.read() == b""
        writer.close()
        await stopping


@pytest.mark.parametrize("before", [1, 0], ids=["answered before", "new"])
async def test_request_in_transit_at_the_stop_is_answered(before: int) -> None:
    port, stopped = free_port(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        closing = [(b"connection", b"close")] if stopped.is_set() else []
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2"), *closing]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with AsyncExitStack() as server:
        await server.enter_async_context(http_server(app, port, ConnectionLimits(65536, 620, drain_seconds=20)))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(before):
            writer.write(ASK)
            await answer(reader)
        stopped.set()
        stopping = asyncio.create_task(server.aclose())
        await wait_until_refused(port)
        writer.write(ASK)
        assert b"connection: close" in await answer(reader)
        await stopping
        writer.close()


async def test_idle_connection_is_closed_soon_after_the_stop() -> None:
    async with AsyncExitStack() as server:
        port = await server.enter_async_context(echo())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await server.aclose()
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nx: " + b"y" * 2000,
        b"GET /" + b"y" * 2000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 1000,
        ASK.replace(b"\r\n\r\n", b"\r\n" + b"x: y\r\n" * 1000 + b"\r\n"),
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 1000,
    ],
    ids=["endless header", "endless path", "endless headers", "too many headers", "too many headers after the body"],
)
async def test_head_beyond_the_limit_is_refused(head: bytes) -> None:
    async with echo() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        async with asyncio.timeout(5):
            assert b"HTTP/1.1 400 " in await reader.read()
        writer.close()


async def test_body_may_be_longer_than_a_head() -> None:
    body = b"z" * 100_000
    async with echo() as port, httpx.AsyncClient(trust_env=False) as client:
        for _ in range(2):  # The second request uses the same connection.
            assert (await client.post(f"http://127.0.0.1:{port}", content=body)).content == body


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """Run a server that returns the request's body, and yield its port. Request heads have at most 1024 bytes."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    port = free_port()
    async with http_server(app, port, ConnectionLimits(1024, 5, drain_seconds=1)):
        yield port


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return the head of one response. Raises asyncio.IncompleteReadError if the connection ends too early."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(ANSWER)
    assert await reader.readexactly(2) == b"ok"
    return head.lower()


async def wait_until_refused(port: int) -> None:
    """Wait until the port is closed."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return
        writer.close()
