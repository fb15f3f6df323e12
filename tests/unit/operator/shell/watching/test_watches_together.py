"""All kinds are watched at the same time on a server that responds like the API server."""

import asyncio
import json
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from gaudi_operator.shell.client import Connection
from gaudi_operator.shell.kinds import CLASS, RESOURCE, SERVICE, Kind
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.watching.kopf_watches import KopfWatchSession, watch_with_kopf


def discovered(kind: str, plural: str, namespaced: bool) -> Mapping[str, Any]:
    verbs = ["list", "watch", "patch"]
    return {"resources": [{"name": plural, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": verbs}]}


GROUP, VERSION = RESOURCE.group_version
DISCOVERY: Mapping[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": discovered("Namespace", "namespaces", namespaced=False),
    "/apis": {
        "groups": [{"name": GROUP, "versions": [{"version": VERSION}], "preferredVersion": {"version": VERSION}}]
    },
    f"/apis/{RESOURCE.api_version}": discovered(RESOURCE.kind, RESOURCE.plural, namespaced=True),
}
"""Return a discovery entry: kopf waits until it has found namespaces."""


class Server:
    """A server with objects for each collection. The test sends events to the watches of the server."""

    def __init__(self) -> None:
        """Create a server without objects."""
        self.lists: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self.events: dict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.resources_are_listed, self.resources_may_be_listed = asyncio.Event(), asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Respond to a list, a watch, or a discovery request of kopf."""
        if request.path in DISCOVERY:
            return web.json_response(DISCOVERY[request.path])
        self.requests.append((request.path, dict(request.query)))
        if "watch" not in request.query:
            if request.path.endswith(RESOURCE.plural):
                self.resources_are_listed.set()
                await self.resources_may_be_listed.wait()
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": self.lists[request.path]})
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(await self.events[request.path].get())

    def send(self, path: str, what: str, manifest: Mapping[str, Any]) -> None:
        """Send an event to a watch."""
        self.events[path].put_nowait(json.dumps({"type": what, "object": manifest}).encode() + b"\n")


class Watching:
    """The recorded events that the watches delivered."""

    def __init__(self, server: Server) -> None:
        """Create a recorder without events."""
        self.server, self.news = server, asyncio.Event()
        self.delivered: list[tuple[str, Any]] = []

    def tell(self, what: str, value: Any) -> None:
        """Record one call."""
        self.delivered.append((what, value))
        self.news.set()

    async def until(self, *events: tuple[str, Any]) -> None:
        """Wait until all `events` are delivered."""
        async with asyncio.timeout(20):
            while not all(each in self.delivered for each in events):
                await self.news.wait()
                self.news.clear()


def named(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']} {manifest['metadata']['resourceVersion']}"


@asynccontextmanager
async def watching(server: Server, namespaces: Collection[str], kinds: Collection[Kind]) -> AsyncIterator[Watching]:
    """Watch `kinds` while the context is open."""
    shown, loop = Watching(server), asyncio.get_running_loop()

    def call(what: str) -> Callable[[Mapping[str, Any]], None]:
        return lambda manifest: shown.tell(what, named(manifest))

    def started() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        shown.tell("started", None)

    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    async with TestServer(app) as http:
        connection = Connection(Configuration(host=str(http.make_url("")).rstrip("/")))
        session = KopfWatchSession(
            MonitoringMetrics(), call("listed"), lambda kind, *rest: shown.tell("end", (kind, *rest)), namespaces
        )
        calls = call("seen"), call("deleted")
        task = asyncio.create_task(watch_with_kopf(connection, namespaces, started, session, kinds, *calls))
        try:
            yield shown
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def object_in(kind: Kind, name: str, version: int, namespace: str = "blue") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": str(version)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


async def test_children_are_listed_after_resources_and_all_are_watched() -> None:
    server, kinds = Server(), (RESOURCE, SERVICE, CLASS)
    for kind, path in ((RESOURCE, RESOURCE.path("blue")), (SERVICE, SERVICE.path("blue")), (CLASS, CLASS.path(None))):
        server.lists[path].append(object_in(kind, "tiny", 5))
    async with watching(server, ("blue",), kinds) as shown:
        await shown.until(("started", None))
        async with asyncio.timeout(20):
            await server.resources_are_listed.wait()
        assert {path for path, _ in server.requests} == {RESOURCE.path("blue")}
        server.resources_may_be_listed.set()
        await shown.until(("listed", "GaudiInference tiny 5"), ("end", (RESOURCE, "blue", ["uid-of-tiny"], 7)))
        ends = [("end", (SERVICE, "blue", {"uid-of-tiny"}, 7)), ("end", (CLASS, None, {"uid-of-tiny"}, 7))]
        await shown.until(*ends, ("seen", "Service tiny 5"), ("seen", "GaudiInferenceClass tiny 5"))
        server.send(RESOURCE.path("blue"), "MODIFIED", object_in(RESOURCE, "tiny", 8))
        server.send(SERVICE.path("blue"), "ADDED", object_in(SERVICE, "new", 9))
        await shown.until(("seen", "GaudiInference tiny 8"), ("seen", "Service new 9"))
        server.send(RESOURCE.path("blue"), "DELETED", object_in(RESOURCE, "tiny", 10))
        server.send(SERVICE.path("blue"), "DELETED", object_in(SERVICE, "new", 11))
        await shown.until(("deleted", "GaudiInference tiny 10"), ("deleted", "Service new 11"))
    watches = {path: query for path, query in server.requests if "watch" in query}
    assert {path: query["resourceVersion"] for path, query in watches.items()} == {
        RESOURCE.path("blue"): "7",
        SERVICE.path("blue"): "7",
        CLASS.path(None): "7",
    }
    assert {query["timeoutSeconds"] for query in watches.values()} == {"300"}


async def test_each_kind_is_watched_in_all_namespaces_by_default() -> None:
    server = Server()
    server.resources_may_be_listed.set()
    async with watching(server, (), (RESOURCE, SERVICE)) as shown:
        await shown.until(("end", (RESOURCE, None, [], 7)), ("end", (SERVICE, None, set(), 7)))
    assert {path for path, _ in server.requests} == {RESOURCE.path(None), SERVICE.path(None)}
