"""Leader election by a Lease: at most one replica works, another takes over when it goes.

The client library's own election compares wall clocks, lets one hanging request outlive the deadline, ends on a
lost connection and never releases; so this one is ours. All deadlines are on the monotonic clock.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gaudi_operator.errors import NotFound, OperatorError
from gaudi_operator.shell.client import Cluster
from gaudi_operator.shell.kinds import LEASE

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """Who asks for which Lease; times in seconds."""

    namespace: str
    name: str
    identity: str
    duration: float
    renew_deadline: float
    retry_period: float


class Election:
    """This replica's part in the election."""

    def __init__(self, cluster: Cluster, terms: Terms) -> None:
        """A follower."""
        self._cluster = cluster
        self._terms = terms
        self._renewed = float("-inf")
        self._seen: tuple[Any, ...] = ()
        self._seen_at = time.monotonic()

    def leads(self) -> bool:
        """Whether nobody else can lead now: the last renewal is younger than the renew deadline."""
        return time.monotonic() - self._renewed < self._terms.renew_deadline

    async def acquire(self) -> None:
        """Return as the leader."""
        while not await self._attempt():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._terms.retry_period)
        log.info("This replica leads: it holds the lease %s.", self._terms.name)

    async def keep(self) -> None:
        """Renew until the lease is lost or could not be renewed in time."""
        while self.leads():
            await asyncio.sleep(self._terms.retry_period)
            await self._attempt()
        log.error("The lease %s is lost: this replica stops all work.", self._terms.name)

    async def release(self) -> None:
        """Give the lease back so that a follower need not wait for its end."""
        self._renewed = float("-inf")
        try:
            lease = await self._read()
            if lease and lease["spec"].get("holderIdentity") == self._terms.identity:
                await self._write(lease, {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})
                log.info("The lease %s is released.", self._terms.name)
        except OperatorError as error:
            log.warning("The lease was not released; a follower takes over when it ends: %s", error)

    async def _attempt(self) -> bool:
        """Take or renew the lease; a failure of the way to the API server is a failed attempt."""
        started = time.monotonic()
        try:
            taken = await self._take(await self._read())
        except OperatorError as error:
            log.warning("The lease could not be taken or renewed: %s", error)
            return False
        if taken:
            self._renewed = started
        else:
            self._renewed = float("-inf")
        return taken

    async def _take(self, lease: Mapping[str, Any] | None) -> bool:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != self._terms.identity:
            if lease and not self._expired(spec):
                return False
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {"holderIdentity": self._terms.identity, "leaseDurationSeconds": round(self._terms.duration)}
        await self._write(lease, {**spec, "renewTime": now})
        return True

    def _expired(self, spec: Mapping[str, Any]) -> bool:
        """Whether the holder was silent for its whole duration on *our* clock; clocks of machines differ."""
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, time.monotonic()
        silent = time.monotonic() - self._seen_at
        return not spec.get("holderIdentity") or silent > float(spec.get("leaseDurationSeconds") or 0)

    async def _read(self) -> dict[str, Any] | None:
        path = LEASE.path(self._terms.namespace, self._terms.name)
        try:
            return await self._cluster.request("GET", path, seconds=self._seconds())
        except NotFound:
            return None

    async def _write(self, lease: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> None:
        """Create or replace; the resource version makes two candidates collide instead of both winning."""
        namespace, name = self._terms.namespace, self._terms.name
        metadata = dict(lease["metadata"]) if lease else {"namespace": namespace, "name": name}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": dict(spec)}
        method, path = ("PUT", LEASE.path(namespace, name)) if lease else ("POST", LEASE.path(namespace))
        await self._cluster.request(method, path, body, fenced=False, seconds=self._seconds())

    def _seconds(self) -> float:
        return max(1.0, self._terms.renew_deadline / 3)
