"""Leader election with a Lease. Only the leader works. Another replica takes over when the leader stops.

The client library has an election too, but it compares wall clocks, lets a request exceed the deadline, ends on a lost
connection and never releases the Lease. This election uses the monotonic clock for all deadlines.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from threading import Thread
from typing import Any, Self, TypeVar

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.errors import NotFoundError, OperatorError
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import ClusterClient
from gaudi_operator.shell.kinds import LEASE

log = logging.getLogger(__name__)

T = TypeVar("T")


class LeaseThread:
    """A separate thread with an event loop, so that the rest of the process cannot delay the Lease.

    The main thread of a leader may be busy for seconds, for example with the first lists of a large cluster. /livez
    reports whether the main thread is alive. Use as an async context manager.
    """

    def __init__(self) -> None:
        """Create the event loop and the thread without starting the thread."""
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
        """Run `work` in the thread, and return its result. If the caller is cancelled, the work is cancelled too."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class LeaseElection:
    """The leader election, as seen by this replica."""

    def __init__(self, cluster: ClusterClient, settings: Settings, clock: Clock = SYSTEM) -> None:
        """Create the election with this replica as a follower."""
        self._clock = clock
        self._cluster = cluster
        self._settings = settings
        self._renewed_at = float("-inf")
        self._observed_spec: Mapping[str, Any] | None = None
        self._observed_at = self._clock.monotonic()

    def leads(self) -> bool:
        """Return True if the last renewal is younger than the renew deadline, so that no other replica can lead."""
        return self._clock.monotonic() - self._renewed_at < self._settings.renew_deadline_seconds

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        while not await self._try_acquire_or_renew():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._settings.retry_period_seconds)
        log.info("This replica leads: it holds the lease %s.", self._settings.lease_name)

    async def renew_until_lost(self) -> None:
        """Renew the lease until this replica no longer leads."""
        while self.leads():
            await asyncio.sleep(self._settings.retry_period_seconds)
            await self._try_acquire_or_renew()
        log.error("The lease %s is lost, so this replica stops all work.", self._settings.lease_name)

    async def release(self) -> None:
        """Release the lease, so that a follower can take over before the lease expires."""
        self._renewed_at = float("-inf")
        try:
            lease = await self._read_lease()
            if lease and lease["spec"].get("holderIdentity") == self._settings.identity:
                # Remove the holder, so that followers do not wait for the end of the lease. The API server requires a
                # duration of at least 1 s.
                await self._write_lease(lease, {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})
                log.info("The lease %s is released.", self._settings.lease_name)
        except OperatorError as error:
            log.warning("The lease was not released. A follower takes over when the lease expires: %s", error)

    async def _try_acquire_or_renew(self) -> bool:
        """Try to take or renew the lease, and return True on success. A failed request counts as a failed attempt."""
        started_at = self._clock.monotonic()
        try:
            succeeded = await self._acquire_or_renew(await self._read_lease())
        except OperatorError as error:
            log.warning("The lease could not be taken or renewed: %s", error)
            return False
        # Measure the age of the lease from the start of the request. Followers measure the age from the write, which
        # may happen immediately after the start.
        self._renewed_at = started_at if succeeded else float("-inf")
        return succeeded

    async def _acquire_or_renew(self, lease: Mapping[str, Any] | None) -> bool:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != self._settings.identity:
            if lease and not self._is_expired(spec):
                return False
            # The count of transitions starts at 0, because the first holder of a Lease replaces no other holder.
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": round(self._settings.lease_duration_seconds),
        }
        await self._write_lease(lease, {**spec, "renewTime": now})
        return True

    def _is_expired(self, spec: Mapping[str, Any]) -> bool:
        """Return True if the lease has no holder or has expired, measured by this replica's monotonic clock."""
        if spec != self._observed_spec:
            self._observed_spec, self._observed_at = dict(spec), self._clock.monotonic()
        age_seconds = self._clock.monotonic() - self._observed_at
        return not spec.get("holderIdentity") or age_seconds > float(spec.get("leaseDurationSeconds") or 0)

    async def _read_lease(self) -> dict[str, Any] | None:
        path = LEASE.path(self._settings.namespace, self._settings.lease_name)
        try:
            return await self._cluster.request("GET", path, seconds=self._request_seconds())
        except NotFoundError:
            return None

    async def _write_lease(self, lease: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> None:
        """Create or replace the lease. If two replicas write at the same time, one write fails with a conflict."""
        namespace, name = self._settings.namespace, self._settings.lease_name
        metadata = dict(lease["metadata"]) if lease else {"namespace": namespace, "name": name}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": dict(spec)}
        method, path = ("PUT", LEASE.path(namespace, name)) if lease else ("POST", LEASE.path(namespace))
        # Do not fence this write: the fence allows writes only after the lease is renewed by this write.
        await self._cluster.request(method, path, body, fenced=False, seconds=self._request_seconds())

    def _request_seconds(self) -> float:
        # A third of the renew deadline. If one request times out, two more requests are possible before the deadline.
        return max(1.0, self._settings.renew_deadline_seconds / 3)
