"""Leader election by a Lease: at most one replica works, another takes over when it goes.

The client library's own election compares wall clocks, lets one hanging request outlive the deadline, ends on a
lost connection and never releases; so this one is ours. All deadlines are on the monotonic clock.
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


class OwnThread:
    """An event loop in a thread of its own, which waits for nothing that this process does elsewhere.

    A leader has seconds of work in a row, such as the first lists of a large cluster: it must not lose its Lease to
    that. Whether the rest of the process still moves, /livez says. Use as an async context manager.
    """

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="lease", daemon=True)

    async def __aenter__(self) -> Self:
        """Start it."""
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it; what still runs there is dropped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there, and wait here; cancelled here, it is cancelled there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class Election:
    """This replica's part in the election."""

    def __init__(self, cluster: Cluster, settings: Settings, clock: Clock = SYSTEM) -> None:
        """A follower."""
        self._clock = clock
        self._cluster = cluster
        self._settings = settings
        self._renewed = float("-inf")
        self._seen: Mapping[str, Any] | None = None
        self._seen_at = self._clock.monotonic()

    def leads(self) -> bool:
        """Whether nobody else can lead now: the last renewal is younger than the renew deadline."""
        return self._clock.monotonic() - self._renewed < self._settings.renew_deadline_seconds

    async def acquire(self) -> None:
        """Return as the leader."""
        while not await self._attempt():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._settings.retry_period_seconds)
        log.info("This replica leads: it holds the lease %s.", self._settings.lease_name)

    async def keep(self) -> None:
        """Renew until the lease is lost or could not be renewed in time."""
        while self.leads():
            await asyncio.sleep(self._settings.retry_period_seconds)
            await self._attempt()
        log.error("The lease %s is lost: this replica stops all work.", self._settings.lease_name)

    async def release(self) -> None:
        """Give the lease back so that a follower need not wait for its end."""
        self._renewed = float("-inf")
        try:
            lease = await self._read()
            if lease and lease["spec"].get("holderIdentity") == self._settings.identity:
                # The API server takes no duration below 1; without a holder a follower need not wait for it.
                await self._write(lease, {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})
                log.info("The lease %s is released.", self._settings.lease_name)
        except OperatorError as error:
            log.warning("The lease was not released; a follower takes over when it ends: %s", error)

    async def _attempt(self) -> bool:
        """Take or renew the lease; a failure of the way to the API server is a failed attempt."""
        started = self._clock.monotonic()
        try:
            taken = await self._take(await self._read())
        except OperatorError as error:
            log.warning("The lease could not be taken or renewed: %s", error)
            return False
        # From before the request: whoever reads the Lease counts from its write, which may have come at once.
        self._renewed = started if taken else float("-inf")
        return taken

    async def _take(self, lease: Mapping[str, Any] | None) -> bool:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != self._settings.identity:
            if lease and not self._expired(spec):
                return False
            # A Lease that nobody had before starts at 0.
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": round(self._settings.lease_duration_seconds),
        }
        await self._write(lease, {**spec, "renewTime": now})
        return True

    def _expired(self, spec: Mapping[str, Any]) -> bool:
        """Whether the holder was silent for its whole duration on *our* clock; clocks of machines differ."""
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
        """Create or replace; the resource version makes two candidates collide instead of both winning."""
        namespace, name = self._settings.namespace, self._settings.lease_name
        metadata = dict(lease["metadata"]) if lease else {"namespace": namespace, "name": name}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": dict(spec)}
        method, path = ("PUT", LEASE.path(namespace, name)) if lease else ("POST", LEASE.path(namespace))
        # Not fenced: the fence is made of this write.
        await self._cluster.request(method, path, body, fenced=False, seconds=self._seconds())

    def _seconds(self) -> float:
        # A third: one request that hangs leaves time for two more before the renew deadline.
        return max(1.0, self._settings.renew_deadline_seconds / 3)
