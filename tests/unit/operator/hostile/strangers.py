"""Objects of strangers with our label, as large as etcd takes them, and an operator that lists and watches them."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.kinds import CONTROLLER_REVISION
from gaudi_operator.shell.watching.list_watch import ListWatch
from tests.unit.operator.hostile.limited import peak, run

OBJECTS = 10
BYTES = 1_400_000
PATH = CONTROLLER_REVISION.path(None)
CONTENTS = {
    "empty lists": ("[", "[],", "[]]"),
    "small objects": ("[", '{"a":{}},', "{}]"),
    "wide text": ('"', "\U0001f600", '"'),
}
"""Start, what is repeated, and end of an object's data."""


def grown_by(what: str) -> int:
    """Bytes by which the memory grows that lists and watches so many objects."""
    ended = run(_operate, what)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return int(json.loads(ended.stdout))


def _operate(what: str) -> None:
    sys.stdout.write(json.dumps(asyncio.run(_grown(what))))


async def _grown(what: str) -> int:
    start, repeated, end = CONTENTS[what]
    data = (start + repeated * (BYTES // len(repeated.encode())) + end).encode()
    held: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in _events(data) if "watch" in request.query else _list(data):
            await response.write(part)
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_get(PATH, answer)
    watched = asyncio.Event()

    def seen(manifest: Any) -> None:
        held.append(manifest)
        if len(held) == OBJECTS + 1:
            watched.set()

    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        before = peak()
        url = str(server.make_url("")).rstrip("/")
        follows = ListWatch(http, url, CONTROLLER_REVISION, None, lambda *each: held.append(each), seen, seen).follow()
        task = asyncio.create_task(follows)
        await watched.wait()
        task.cancel()
        return peak() - before


def _revision(number: int, data: bytes) -> Iterator[bytes]:
    metadata = {"name": f"strange-{number}", "namespace": "models", "uid": f"{number}", "resourceVersion": "7"}
    whole = {"metadata": {**metadata, "labels": {NAME_LABEL: "tiny"}}, "revision": 1}
    yield json.dumps(whole).encode()[:-1] + b', "data": '
    yield data
    yield b"}"


def _list(data: bytes) -> Iterator[bytes]:
    yield b'{"metadata": {"resourceVersion": "7"}, "items": ['
    for number in range(OBJECTS):
        yield from _revision(number, data)
        yield b"]}" if number == OBJECTS - 1 else b","


def _events(data: bytes) -> Iterator[bytes]:
    for number in range(OBJECTS):
        yield b'{"type": "ADDED", "object": '
        yield from _revision(number, data)
        yield b"}\n"
