"""Events on resources (events.k8s.io/v1); a repeated one becomes a series instead of a second event.

They are published in the background, in order: no gate waits for an event.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Event
from gaudi_operator.core.observed import Manifest
from gaudi_operator.errors import NotFound, OperatorError
from gaudi_operator.shell.client import MERGE_PATCH, Cluster
from gaudi_operator.shell.kinds import EVENT

CONTROLLER = "inference.gaudi.dev/operator"
SERIES_SECONDS = 360.0
_MOST_SERIES = 4096
_MOST_WAITING = 1000
_NOTE_BYTES = 1000

log = logging.getLogger(__name__)


@dataclass
class _Series:
    """An event that stands in the cluster, and how often it happened."""

    path: str
    count: int
    seen: float


class Publisher:
    """Publishes events; a failure is logged and changes nothing else. Use as an async context manager."""

    def __init__(self, cluster: Cluster, instance: str, clock: Clock = SYSTEM) -> None:
        """`instance` is the name of this process in its events."""
        self._clock = clock
        self._cluster = cluster
        # events.k8s.io/v1 takes 128 characters here and 1024 bytes of note, and refuses the event otherwise.
        self._instance = instance[:128]
        self._known: dict[tuple[str, Event], _Series] = {}
        self._waiting: asyncio.Queue[tuple[Manifest, Event]] = asyncio.Queue(_MOST_WAITING)

    async def __aenter__(self) -> Self:
        """Publish in the background from now on."""
        self._task = asyncio.create_task(self._work(), name="events")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; what still waits is dropped."""
        self._task.cancel()

    def publish(self, resource: Manifest, event: Event) -> None:
        """Publish one event on a resource soon."""
        try:
            # Never waited for: a full queue means a slow API server, and gates come first.
            self._waiting.put_nowait((resource, event))
        except asyncio.QueueFull:
            log.warning("Too many events wait; this one is dropped: %s", event.message)

    async def _work(self) -> None:
        while True:
            resource, event = await self._waiting.get()
            try:
                await self._publish(resource, event)
            except OperatorError as error:
                log.warning("The event %s was not published: %s", event.reason, error)

    async def _publish(self, resource: Manifest, event: Event) -> None:
        identity = (resource["metadata"]["uid"], event)
        series = self._known.get(identity)
        if series and self._clock.monotonic() - series.seen < SERIES_SECONDS:
            try:
                await self._repeat(series)
                return
            except NotFound:
                pass  # somebody has cleaned up: it becomes a new event
        namespace = resource["metadata"]["namespace"]
        body = self._body(resource, event)
        await self._cluster.request("POST", EVENT.path(namespace), body)
        self._known[identity] = _Series(EVENT.path(namespace, body["metadata"]["name"]), 1, self._clock.monotonic())
        while len(self._known) > _MOST_SERIES:
            self._known.pop(next(iter(self._known)))

    async def _repeat(self, series: _Series) -> None:
        series.count, series.seen = series.count + 1, self._clock.monotonic()
        body = {"series": {"count": series.count, "lastObservedTime": self._now()}}
        await self._cluster.request("PATCH", series.path, body, content_type=MERGE_PATCH)

    def _body(self, resource: Manifest, event: Event) -> dict[str, Any]:
        metadata = resource["metadata"]
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            # Of its own for each: a name may have 253 characters, that of the resource not all of them.
            "metadata": {"name": f"{metadata['name'][:200]}.{uuid4().hex[:16]}", "namespace": metadata["namespace"]},
            "eventTime": self._now(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Reconcile",
            "type": event.type,
            "reason": event.reason,
            # Cut in bytes, as the API server counts; half a character at the end goes too.
            "note": event.message.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": {
                "apiVersion": resource["apiVersion"],
                "kind": resource["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
