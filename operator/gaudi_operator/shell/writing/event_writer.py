"""Events on resources (events.k8s.io/v1). A repeated event is published as a series.

Events are published in the background, in order per resource. Gates do not wait for events. A resource does not wait
for events of other resources.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Event
from gaudi_operator.core.observed import Manifest
from gaudi_operator.errors import NotFoundError, OperatorError
from gaudi_operator.shell.client import MERGE_PATCH, ClusterClient
from gaudi_operator.shell.kinds import EVENT
from gaudi_operator.shell.token_bucket import TokenBucket
from gaudi_runtime.contract.text import make_one_line

CONTROLLER = "inference.gaudi.dev/operator"
SERIES_SECONDS = 360.0
BURST, PER_SECOND = 10, 1.0
"""The token bucket of events per resource. A rollout has fewer than 10 events. Further events are delayed."""
_MOST_WAITING = 20
_MOST_SERIES = 50
_MOST_MAILBOXES = 10_000
_NOTE_BYTES = 1000

log = logging.getLogger(__name__)


@dataclass
class _Series:
    """A published event: its API path, its count, and the time of the last occurrence."""

    path: str
    count: int
    last_observed: float


@dataclass
class _Mailbox:
    """The events of one resource: events that wait, and events that are published."""

    bucket: TokenBucket
    waiting_events: deque[tuple[Manifest, Event]] = field(default_factory=deque)
    series_by_event: dict[Event, _Series] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class EventPublisher:
    """A publisher of events in the background. Failures are only logged. Use as an async context manager."""

    def __init__(self, cluster: ClusterClient, instance: str, clock: Clock = SYSTEM) -> None:
        """Create a publisher. `instance` is the name of this process in its events."""
        self._clock = clock
        self._cluster = cluster
        # Truncate the instance. The API events.k8s.io/v1 rejects an instance of more than 128 characters and a note of
        # more than 1024 bytes.
        self._instance = instance[:128]
        self._mailboxes: dict[str, _Mailbox] = {}
        # Send one event at a time, so that events do not delay gates, which use the same API server.
        self._publish_lock = asyncio.Semaphore()

    async def __aenter__(self) -> Self:
        """Return the publisher; publish() starts its tasks."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop publishing. Events that still wait are dropped."""
        for mailbox in self._mailboxes.values():
            if mailbox.task:
                mailbox.task.cancel()

    def publish(self, resource: Manifest, event: Event) -> None:
        """Queue one event about a resource."""
        mailbox = self._get_mailbox(resource["metadata"]["uid"])
        # Drop the oldest event instead of waiting, because the latest events are the most useful ones.
        if len(mailbox.waiting_events) == _MOST_WAITING:
            _, oldest = mailbox.waiting_events.popleft()
            log.warning(
                "Too many events of this resource are queued, so one event is dropped: %s",
                oldest.reason,
                extra=_log_fields(resource),
            )
        mailbox.waiting_events.append((resource, event))
        if mailbox.task is None:
            mailbox.task = asyncio.create_task(
                self._publish_waiting(mailbox), name=f"events of {resource['metadata']['uid']}"
            )

    def count_waiting(self) -> int:
        """Return the number of events that wait to be published."""
        return sum(len(mailbox.waiting_events) for mailbox in self._mailboxes.values())

    def _get_mailbox(self, uid: str) -> _Mailbox:
        mailbox = self._mailboxes.pop(uid, None) or _Mailbox(TokenBucket(BURST, PER_SECOND, self._clock))
        self._mailboxes[uid] = mailbox
        # Drop an idle mailbox to limit memory. A leader may run for months while resources are created and deleted.
        if len(self._mailboxes) > _MOST_MAILBOXES:
            idle_uid = next((uid for uid, mailbox in self._mailboxes.items() if mailbox.task is None), None)
            self._mailboxes.pop(idle_uid or "", None)
        return mailbox

    async def _publish_waiting(self, mailbox: _Mailbox) -> None:
        """Publish the waiting events. The token bucket limits the rate."""
        while mailbox.waiting_events:
            await mailbox.bucket.wait()
            async with self._publish_lock:
                resource, event = mailbox.waiting_events.popleft()
                try:
                    await self._publish(resource, event, mailbox.series_by_event)
                except OperatorError as error:
                    log.warning("The event %s was not published: %s", event.reason, error, extra=_log_fields(resource))
        mailbox.task = None

    async def _publish(self, resource: Manifest, event: Event, series_by_event: dict[Event, _Series]) -> None:
        series = series_by_event.get(event)
        if series and self._clock.monotonic() - series.last_observed < SERIES_SECONDS:
            try:
                await self._update_series(series)
                return
            except NotFoundError:
                pass  # the event was deleted, so create a new one
        namespace = resource["metadata"]["namespace"]
        body = self._event_body(resource, event)
        await self._cluster.request("POST", EVENT.path(namespace), body)
        series_by_event.pop(event, None)
        series_by_event[event] = _Series(EVENT.path(namespace, body["metadata"]["name"]), 1, self._clock.monotonic())
        while len(series_by_event) > _MOST_SERIES:
            series_by_event.pop(next(iter(series_by_event)))

    async def _update_series(self, series: _Series) -> None:
        series.count, series.last_observed = series.count + 1, self._clock.monotonic()
        body = {"series": {"count": series.count, "lastObservedTime": self._now()}}
        await self._cluster.request("PATCH", series.path, body, content_type=MERGE_PATCH)

    def _event_body(self, resource: Manifest, event: Event) -> dict[str, Any]:
        metadata = resource["metadata"]
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            # Add a random suffix, because each event needs a unique name. Truncate the resource's name, because a name
            # may have at most 253 characters.
            "metadata": {"name": f"{metadata['name'][:200]}.{uuid4().hex[:16]}", "namespace": metadata["namespace"]},
            "eventTime": self._now(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Reconcile",
            "type": event.type,
            "reason": event.reason,
            # Truncate bytes instead of characters, because the API server counts bytes. `errors="ignore"` removes an
            # incomplete character at the end.
            "note": make_one_line(event.message).encode()[:_NOTE_BYTES].decode(errors="ignore"),
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


def _log_fields(resource: Manifest) -> dict[str, str]:
    return {"resource": f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"}
