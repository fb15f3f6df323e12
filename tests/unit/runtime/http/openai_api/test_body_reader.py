"""The limit on the bytes of all bodies that are being read."""

import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message

from gaudi_runtime.http.openai_api.body_reader import MAX_BODY_BYTES, MAX_TOTAL_BYTES, BodyReader
from gaudi_runtime.http.openai_api.errors import Overloaded

LARGE = bytes(MAX_BODY_BYTES)
"""All parts of a test share these bytes, so the test itself needs little memory."""


class Body:
    """A body of parts. The reader waits before the last part until `finish` is set, and calls `begun` before."""

    def __init__(self, first: bytes, last: bytes = b"") -> None:
        self.parts, self.begun, self.finish = [first, last], asyncio.Event(), asyncio.Event()

    async def receive(self) -> Message:
        """Return the next part."""
        if len(self.parts) == 1:
            self.begun.set()
            await self.finish.wait()
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": bool(self.parts)}


async def size_of(reader: BodyReader, body: Body) -> int:
    async with reader.read(body.receive) as content:
        return len(content)


async def start(reader: BodyReader, *bodies: Body) -> list[asyncio.Task[int]]:
    """Start to read the bodies, and return when the reader waits for the end of each."""
    tasks = [asyncio.create_task(size_of(reader, body)) for body in bodies]
    for body in bodies:
        await body.begun.wait()
    return tasks


async def finish(tasks: list[asyncio.Task[int]], bodies: list[Body]) -> list[int | BaseException]:
    for body in bodies:
        body.finish.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_largest_body_is_given_up_above_the_limit() -> None:
    reader, count = BodyReader(), MAX_TOTAL_BYTES // MAX_BODY_BYTES
    slow = [Body(LARGE[1:]), *(Body(LARGE[2:]) for _ in range(count - 1))]
    tasks = await start(reader, *slow)
    small = Body(b"1" * (2 * count))
    small.finish.set()
    assert await size_of(reader, small) == 2 * count
    given_up, *others = await finish(tasks, slow)
    assert isinstance(given_up, Overloaded)
    assert (given_up.status, given_up.code) == (429, "bodies_too_large")
    assert given_up.message == (
        "The server is reading 268435456 bytes of requests, and gave up the largest request. Try again later."
    )
    assert others == [MAX_BODY_BYTES - 2] * (count - 1)


async def test_body_that_exceeds_the_limit_itself_is_given_up() -> None:
    reader, count = BodyReader(), MAX_TOTAL_BYTES // MAX_BODY_BYTES
    slow = [Body(LARGE[1:]) for _ in range(count)]
    tasks = await start(reader, *slow)
    largest = Body(LARGE)
    task = asyncio.create_task(size_of(reader, largest))
    with pytest.raises(Overloaded):
        await task
    assert await finish(tasks, slow) == [MAX_BODY_BYTES - 1] * count


async def test_body_that_is_being_checked_counts() -> None:
    reader, checked, count = BodyReader(), Body(LARGE), MAX_TOTAL_BYTES // MAX_BODY_BYTES
    checked.finish.set()
    is_checking = asyncio.Event()

    async def check() -> None:
        async with reader.read(checked.receive):
            is_checking.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(check())
    await is_checking.wait()
    slow = [Body(LARGE[1:]) for _ in range(count)]
    tasks = await start(reader, *slow)
    with pytest.raises(Overloaded):
        await task
    assert await finish(tasks, slow) == [MAX_BODY_BYTES - 1] * count


async def test_bodies_that_were_read_do_not_count() -> None:
    reader = BodyReader()
    for _ in range(2 * MAX_TOTAL_BYTES // MAX_BODY_BYTES):
        body = Body(LARGE)
        body.finish.set()
        assert await size_of(reader, body) == MAX_BODY_BYTES


async def test_body_above_the_limit_of_one_body_is_refused_early() -> None:
    body = Body(LARGE, b"1")
    body.finish.set()
    with pytest.raises(HTTPException) as refused:
        await size_of(BodyReader(), body)
    assert refused.value.status_code == 413


async def test_client_that_disconnects_frees_its_bytes() -> None:
    reader = BodyReader()
    for _ in range(2 * MAX_TOTAL_BYTES // MAX_BODY_BYTES):
        messages: list[Message] = [
            {"type": "http.disconnect"},
            {"type": "http.request", "body": LARGE, "more_body": True},
        ]

        async def receive(messages: list[Message] = messages) -> Message:
            return messages.pop()

        with pytest.raises(ClientDisconnect):
            async with reader.read(receive):
                pass
