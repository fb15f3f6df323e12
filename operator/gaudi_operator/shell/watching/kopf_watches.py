"""Watches by kopf. This is the only module that imports kopf, and its event handlers only store objects.

kopf watches the GaudiInferences. list_watch.py watches their children, which are ten times as many. kopf's daemons,
timers and change handlers are not used, because they add finalizers or annotations. With finalizers, a deletion waits
until the operator runs. kopf's indices are not used, because their cost grows with the square of the number of objects.

For a list, kopf starts one task per object, does not report when the last task has run, and forgets earlier lists.
Therefore `KopfWatchSession` reads each list as a whole before kopf, so that the listed and the deleted objects are
known. kopf gets the list without objects, and watches from the version of the list.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import kopf

from gaudi_operator.core.observed import Manifest
from gaudi_operator.retry_delays import RetryDelays
from gaudi_operator.shell.client import Connection
from gaudi_operator.shell.kinds import KINDS, RESOURCE, Kind
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.watching.incoming import IncomingListReader
from gaudi_operator.shell.watching.list_watch import (
    CHUNK_BYTES,
    CONNECT_SECONDS,
    SERVER_TIMEOUT_SECONDS,
    SILENT_SECONDS,
    Listed,
    ListWatch,
    Seen,
)


class _NoDiffs(kopf.DiffBaseStorage):
    """A storage without content. It disables kopf's copies of every object, which only change handlers need."""

    def build(self, **_: Any) -> Any:
        """Return None as the essence of an object, because no versions are compared."""
        return None

    def fetch(self, **_: Any) -> Any:
        """Return None, because nothing is stored."""
        return None

    def store(self, **_: Any) -> None:
        """Do nothing."""


async def watch_with_kopf(
    connection: Connection,
    namespaces: Collection[str],
    on_start: Callable[[], None],
    session: "KopfWatchSession",
    kinds: Collection[Kind],
    on_change: Seen,
    on_deletion: Seen,
) -> None:
    """Watch `kinds` until cancelled.

    `on_change` is called with every changed object, and `on_deletion` with the last version of every deleted object.
    `session` receives lists. `on_start` is called after kopf has installed its signal handlers, so that the caller can
    replace these handlers.
    """
    async with connection.new_watch_session(aiohttp.ClientResponse, session) as http, asyncio.TaskGroup() as task_group:
        list_watches = [
            ListWatch(http, connection.server_url, kind, namespace, session.on_list_end, on_change, on_deletion)
            for kind in kinds
            if kind is not RESOURCE
            for namespace in (namespaces if kind.namespaced else ()) or (None,)
        ]
        tasks = [
            task_group.create_task(
                _run_after_resources(session.resources_listed, list_watch), name=f"watch of {list_watch.kind.plural}"
            )
            for list_watch in list_watches
        ]
        await _watch_with_kopf(connection, namespaces, on_start, session, on_change, on_deletion)
        for task in tasks:
            task.cancel()


async def _run_after_resources(resources_listed: asyncio.Event, list_watch: ListWatch) -> None:
    """Follow a kind after the GaudiInferences are listed, because the store groups objects by GaudiInference."""
    await resources_listed.wait()
    await list_watch.run()


async def _watch_with_kopf(
    connection: Connection,
    namespaces: Collection[str],
    on_start: Callable[[], None],
    session: "KopfWatchSession",
    on_change: Seen,
    on_deletion: Seen,
) -> None:
    """Watch the GaudiInferences with kopf."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=connection.server_url, aiohttp_session=connection.new_watch_session(KopfListResponse, session)
        )

    _register_handler(registry, RESOURCE, on_change, on_deletion)
    existing_tasks = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
    )
    on_start()
    await kopf.run_tasks(tasks, ignored=existing_tasks)


def _register_handler(registry: kopf.OperatorRegistry, kind: Kind, on_change: Seen, on_deletion: Seen) -> None:
    api_group, version = kind.group_version

    @kopf.on.event(group=api_group, version=version, plural=kind.plural, id=f"see-{kind.plural}", registry=registry)
    async def handle_event(event: kopf.RawEvent, **_: Any) -> None:
        (on_deletion if event["type"] == "DELETED" else on_change)(event["object"])


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # scanning needs permissions for namespaces and CRDs
    # Disable the events of kopf, because the operator publishes its own events (events.py).
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.networking.error_backoffs = RetryDelays()
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.server_timeout = SERVER_TIMEOUT_SECONDS
    # The server ends the watch first. The client's timeout is longer, so that it expires only if the connection is
    # dead.
    settings.watching.client_timeout = SERVER_TIMEOUT_SECONDS + CONNECT_SECONDS
    settings.watching.inactivity_timeout = SILENT_SECONDS
    # Do not limit the time of kopf's exit, because replica.py decides when the process ends.
    settings.process.ultimate_exiting_timeout = None
    return settings


log = logging.getLogger(__name__)


class KopfListResponse(aiohttp.ClientResponse):
    """The response to a list request of kopf. The operator can read the objects before kopf reads the response."""

    _list_without_items: Mapping[str, Any] | None = None

    async def read_list(self, convert: Callable[[Manifest], Any]) -> Mapping[str, Any]:
        """Return the list with each object replaced by the result of `convert`. Later readers get no objects."""
        full_list = await IncomingListReader(self.content.iter_chunked(CHUNK_BYTES), convert).read()
        self._list_without_items = {**full_list, "items": []}
        return full_list

    async def json(self, **options: Any) -> Any:
        """Return the response as JSON. After read_list(), the response contains no objects."""
        return await super().json(**options) if self._list_without_items is None else self._list_without_items


@dataclass
class KopfWatchSession:
    """The HTTP client middleware of kopf's watches, which reads lists before kopf and records watch failures.

    `last_attempts` has the time of the last list or watch of each kind, in monotonic seconds. `on_change` is called
    with each object of a list, and `on_list_end` at the end of the list. `resources_listed` is set after the first list
    of GaudiInferences in each of `namespaces`.
    """

    metrics: MonitoringMetrics
    on_change: Seen
    on_list_end: Listed
    namespaces: Collection[str] = ()
    resources_listed: asyncio.Event = field(default_factory=asyncio.Event)
    _listed_namespaces: set[str | None] = field(default_factory=set)
    last_attempts: dict[Kind, float] = field(default_factory=dict)
    failing_kinds: set[Kind] = field(default_factory=set)

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request, count the response, and process the response if it is a list."""
        collection = parse_kopf_path(request.url.path)
        if collection:
            self.last_attempts[collection[0]] = time.monotonic()
        response = await self._send(collection[0] if collection else None, request, handler)
        is_watch = request.url.query.get("watch") == "true"
        self.metrics.count_request(request.method, request.url.path, response.status, is_watch)
        # Process the whole list here, because kopf starts a task for each object of the list afterwards.
        if collection and not is_watch and response.status == 200 and isinstance(response, KopfListResponse):
            await self._process_list(*collection, response)
        return response

    async def _send(
        self, kind: Kind | None, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Return the response. Log only the first failure of an outage. kopf would log every retry."""
        try:
            response = await handler(request)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._record_outcome(kind, str(error) or type(error).__name__)
            raise
        self._record_outcome(kind, f"HTTP {response.status}" if response.status >= 400 else None)
        return response

    def _record_outcome(self, kind: Kind | None, problem: str | None) -> None:
        if kind is None or (kind in self.failing_kinds) == (problem is not None):
            return
        if problem:
            self.failing_kinds.add(kind)
            log.warning("%s cannot be watched: %s. The operator retries.", kind.plural, problem)
        else:
            self.failing_kinds.discard(kind)
            log.info("%s can be watched again.", kind.plural)

    async def _process_list(self, kind: Kind, namespace: str | None, response: KopfListResponse) -> None:
        """Process a list. The response contains all objects, because kopf does not request pages."""
        type_meta = {"apiVersion": kind.api_version, "kind": kind.kind}

        def store_object(manifest: Manifest) -> str:
            self.on_change({**type_meta, **manifest})
            return str(manifest["metadata"]["uid"])

        # Store each object before the next one is read, because the memory for all objects is limited.
        full_list = await response.read_list(store_object)
        uids = full_list.get("items") or []
        self.on_list_end(kind, namespace, uids, int(full_list["metadata"]["resourceVersion"]))
        self._listed_namespaces.add(namespace)
        if self._listed_namespaces.issuperset(self.namespaces or (None,)):
            self.resources_listed.set()

    def idle_seconds(self) -> float:
        """Return the seconds since the last list or watch of the least recently read kind; 0 before the first list."""
        return time.monotonic() - min(self.last_attempts.values()) if self.last_attempts else 0.0


def parse_kopf_path(path: str) -> tuple[Kind, str | None] | None:
    """Return the kind and the namespace of a collection path; None if the path is not a collection."""
    parts = path.strip("/").split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else None
    return next(((kind, namespace) for kind in KINDS.values() if kind.path(namespace) == path), None)
