"""Foreign objects of the maximum size with the operator's label, and an operator that lists and watches them."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.kinds import CONFIG_MAP, CONTROLLER_REVISION, POD, RESOURCE, Kind
from gaudi_operator.shell.watching.list_watch import ListWatch
from gaudi_operator.shell.watching.store import Store
from tests.unit.operator.hostile.limited import peak, run

API_VERSION = "inference.gaudi.dev/v1alpha1"


@dataclass(frozen=True)
class Objects:
    """`count` objects of a kind, each with `size` bytes of content.

    The content consists of `start`, the object's name if `named`, repetitions of `repeated`, and `end`. `owner` is the
    kind and the UID of the objects' controller. `inside` is the field that has the content.
    """

    kind: Kind
    start: str
    repeated: str
    end: str
    count: int = 10
    size: int = 1_400_000
    owner: tuple[str, str] | None = None
    inside: str = "data"
    named: bool = False


MINE = ("GaudiInference", "uid-of-tiny")
WIDE = '{"x": "\U0001f600'
"""This character makes Python store the text with four bytes per character."""
OBJECTS = {
    "empty lists": Objects(CONTROLLER_REVISION, "[", "[],", "[]]"),
    "small objects": Objects(CONTROLLER_REVISION, "[", '{"a":{}},', "{}]"),
    "wide text": Objects(CONTROLLER_REVISION, '"', "\U0001f600", '"', 120, named=True),
    "config maps of a resource": Objects(CONFIG_MAP, '{"x": "', "0123456789abcdef", '"}', 400, 2**20, MINE, named=True),
    "revisions of a resource": Objects(
        CONTROLLER_REVISION, WIDE, "0123456789abcdef", '"}', 200, 240_000, MINE, named=True
    ),
    "revisions of a resource that is gone": Objects(
        CONTROLLER_REVISION,
        WIDE,
        "0123456789abcdef",
        '"}',
        200,
        240_000,
        ("GaudiInference", "uid-of-nothing"),
        named=True,
    ),
    "annotations of pods": Objects(
        POD, WIDE, "0123456789abcdef", '"}', 200, 240_000, ("ReplicaSet", "u"), "annotations", named=True
    ),
}


def grown_by(what: str) -> int:
    """Return the memory growth, in bytes, of a process that lists and watches the objects."""
    ended = run(_operate, what)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return int(json.loads(ended.stdout))


def _operate(what: str) -> None:
    sys.stdout.write(json.dumps(asyncio.run(_grown(OBJECTS[what]))))


async def _grown(objects: Objects) -> int:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in _events(objects) if "watch" in request.query else _list(objects):
            await response.write(part)
        await response.write_eof()
        return response

    app = web.Application()
    path = objects.kind.path(None)
    app.router.add_get(path, answer)
    store, ended, watched = Store(), asyncio.Event(), asyncio.Event()
    store.put(_resource())

    def seen(manifest: Any) -> None:
        store.put(manifest)
        if manifest["metadata"]["name"] == "last":
            watched.set()

    def listed(*end: Any) -> None:
        store.end_list(*end)
        ended.set()

    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        before = peak()
        url = str(server.make_url("")).rstrip("/")
        list_watch = ListWatch(http, url, objects.kind, None, listed, seen, seen, pause=_continue_at_once)
        task = asyncio.create_task(list_watch.run())
        await ended.wait()
        await watched.wait()
        task.cancel()
        return peak() - before


async def _continue_at_once(_: float) -> None:
    """Replace the pauses that collect changes, because the pauses would take most of the test's time."""
    await asyncio.sleep(0)


def _resource() -> dict[str, Any]:
    metadata = {"name": "tiny", "namespace": "models", "uid": MINE[1], "resourceVersion": "1"}
    return {"apiVersion": API_VERSION, "kind": RESOURCE.kind, "metadata": metadata, "spec": {}}


def _object(objects: Objects, name: str) -> Iterator[bytes]:
    metadata: dict[str, Any] = {"name": name, "namespace": "models", "uid": name, "resourceVersion": "7"}
    metadata["labels"] = {NAME_LABEL: "tiny"}
    if objects.owner:
        by, uid = objects.owner
        version = API_VERSION if by == RESOURCE.kind else "apps/v1"
        owner = {"apiVersion": version, "kind": by, "name": "tiny", "uid": uid, "controller": True}
        metadata["ownerReferences"] = [owner]
    content = _content(objects, name)
    head = json.dumps(metadata).encode()[:-1]
    kind = {"apiVersion": objects.kind.api_version, "kind": objects.kind.kind}
    yield json.dumps(kind).encode()[:-1] + b', "metadata": ' + head
    if objects.inside == "annotations":
        yield b', "annotations": ' + content + b"}}"
    else:
        yield b'}, "data": ' + content + b"}"


def _content(objects: Objects, name: str) -> bytes:
    times = objects.size // len(objects.repeated.encode())
    # Put the name into the text, so that the texts of all objects differ. The operator stores equal texts only once.
    return (objects.start + name * objects.named + objects.repeated * times + objects.end).encode()


def _list(objects: Objects) -> Iterator[bytes]:
    yield b'{"metadata": {"resourceVersion": "7"}, "items": ['
    for number in range(objects.count):
        yield from _object(objects, f"listed-{number}")
        yield b"]}" if number == objects.count - 1 else b","


def _events(objects: Objects) -> Iterator[bytes]:
    for name in (*(f"watched-{number}" for number in range(4)), "last"):
        yield b'{"type": "ADDED", "object": '
        yield from _object(objects, name)
        yield b"}\n"
