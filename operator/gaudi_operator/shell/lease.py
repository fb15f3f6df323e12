"""Leader election by a Lease. At most one replica works, and another replica takes over when the leader stops.

The client library's election compares wall clocks, lets a hung request outlive the deadline, ends on a lost connection
and never releases the Lease. This election uses the monotonic clock for all deadlines.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from threading import Thread
from typing import Any, Self, TypeVar

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.errors import NotFound, OperatorError
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import Cluster
from gaudi_operator.shell.kinds import LEASE

log = logging.getLogger(__name__)

T = TypeVar("T")


class LeaseThread:
    """A separate thread with an event loop, so that the rest of the process cannot delay the Lease.

    The main thread of a leader may be busy for seconds, for example with the first lists of a large cluster. /livez
    reports whether the main thread is alive. Use as an async context manager.
    """

    def __init__(self) -> None:
        """Create the loop without starting it."""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="lease", daemon=True)

    async def __aenter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the thread and drop its work."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the thread and wait for it. Cancellation is passed on."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class Election:
    """The election from the view of this replica."""

    def __init__(self, cluster: Cluster, settings: Settings, clock: Clock = SYSTEM) -> None:
        """Start as a follower."""
        self._clock = clock
        self._cluster = cluster
        self._settings = settings
        self._renewed = float("-inf")
        self._seen: Mapping[str, Any] | None = None
        self._seen_at = self._clock.monotonic()

    def leads(self) -> bool:
        """Return True if the last renewal is younger than the renew deadline, so that no other replica can lead."""
        return self._clock.monotonic() - self._renewed < self._settings.renew_deadline_seconds

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        while not await self._attempt():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._settings.retry_period_seconds)
        log.info("This replica leads: it holds the lease %s.", self._settings.lease_name)

    async def keep(self) -> None:
        """Renew the lease until it is lost or a renewal is too late."""
        while self.leads():
            await asyncio.sleep(self._settings.retry_period_seconds)
            await self._attempt()
        log.error("The lease %s is lost: this replica stops all work.", self._settings.lease_name)

    async def release(self) -> None:
        """Release the lease, so that a follower does not wait for its expiry."""
        self._renewed = float("-inf")
        try:
            lease = await self._read()
            if lease and lease["spec"].get("holderIdentity") == self._settings.identity:
                # The shortest duration that the API server accepts is 1. Followers do not wait for the duration if the
                # lease has no holder.
                await self._write(lease, {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})
                log.info("The lease %s is released.", self._settings.lease_name)
        except OperatorError as error:
            log.warning("The lease was not released; a follower takes over when it ends: %s", error)

    async def _attempt(self) -> bool:
        """Try to take or renew the lease. A connection failure counts as a failed attempt."""
        started = self._clock.monotonic()
        try:
            taken = await self._take(await self._read())
        except OperatorError as error:
            log.warning("The lease could not be taken or renewed: %s", error)
            return False
        # Use the time before the request. Followers count from the write, and the API server may have written the lease
        # immediately.
        self._renewed = started if taken else float("-inf")
        return taken

    async def _take(self, lease: Mapping[str, Any] | None) -> bool:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != self._settings.identity:
            if lease and not self._expired(spec):
                return False
            # For a Lease without a previous holder, the count of transitions starts at 0.
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": round(self._settings.lease_duration_seconds),
        }
        await self._write(lease, {**spec, "renewTime": now})
        return True

    def _expired(self, spec: Mapping[str, Any]) -> bool:
        """Return True if the lease has no holder or, by this replica's monotonic clock, was not renewed in time."""
        if spec != self._seen:
            self._seen, self._seen_at = dict(spec), self._clock.monotonic()
        silent = self._clock.monotonic() - self._seen_at
        return not spec.get("holderIdentity") or silent > float(spec.get("leaseDurationSeconds") or 0)

    async def _read(self) -> dict[str, Any] | None:
        path = LEASE.path(self._settings.namespace, self._settings.lease_name)
        try:
            return await self._cluster.request("GET", path, seconds=self._seconds())
        except NotFound:
            return None

    async def _write(self, lease: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> None:
        """Create or replace the lease. The resource version makes one of two concurrent candidates fail."""
        namespace, name = self._settings.namespace, self._settings.lease_name
        metadata = dict(lease["metadata"]) if lease else {"namespace": namespace, "name": name}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": dict(spec)}
        method, path = ("PUT", LEASE.path(namespace, name)) if lease else ("POST", LEASE.path(namespace))
        # Do not fence this write, because the fence depends on the result of this write.
        await self._cluster.request(method, path, body, fenced=False, seconds=self._seconds())

    def _seconds(self) -> float:
        # With a third of the deadline, two more requests fit before the renew deadline if one request hangs.
        return max(1.0, self._settings.renew_deadline_seconds / 3)
