"""The leader's work: watches, reports and reconciles, wired together. Followers run none of it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.answers import SYNCHRONOUS_ANSWERS
from gaudi_operator.core.decide import decide
from gaudi_operator.core.resource import RecentInferences
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import Cluster
from gaudi_operator.shell.kinds import CLASS, LEADER_WORKER_SET, RESOURCE, Kind, ServedKinds
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.plans.planning import Planner
from gaudi_operator.shell.polling.reports import Reports
from gaudi_operator.shell.polling.status_port import FetchReport
from gaudi_operator.shell.reconciling.controller import Controller
from gaudi_operator.shell.reconciling.reconcile import Reconciler
from gaudi_operator.shell.watching.list_watch import SERVER_TIMEOUT_SECONDS, Seen
from gaudi_operator.shell.watching.store import Store
from gaudi_operator.shell.watching.watches import WatchSession
from gaudi_operator.shell.writing.apply import Writer
from gaudi_operator.shell.writing.events import Publisher

# A minute beyond the longest watch, for the delays of kopf between two watches.
IDLE_MOST_SECONDS = SERVER_TIMEOUT_SECONDS + 60

CACHED_SPECS = 64
"""The number of parsed specs to cache: as many as are likely to change at a time."""

log = logging.getLogger(__name__)


Watch = Callable[[WatchSession, Collection[Kind], Seen, Seen], Coroutine[Any, Any, None]]
"""Watches kinds until cancelled. Lists go to the session, changes to the first callback, deletions to the last."""


class RunElsewhere(Protocol):
    """Runs work that must not be delayed by the rest of the process."""

    def __call__(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Run the work."""


async def _here(work: Coroutine[Any, Any, None]) -> None:
    await work


@dataclass(frozen=True)
class LeaderDependencies:
    """The dependencies of a replica. Without a planner, decisions compute plans themselves.

    The election uses `lease_cluster`, if there is one, and is run by `aside`.
    """

    cluster: Cluster
    watch: Watch
    fetch: FetchReport
    clock: Clock = SYSTEM
    planner: Planner | None = None
    lease_cluster: Cluster | None = None
    aside: RunElsewhere = _here


class Leader:
    """One term of leadership."""

    def __init__(self, settings: Settings, around: LeaderDependencies, metrics: Metrics) -> None:
        """Wire the components together, without starting them."""
        cluster, clock = around.cluster, around.clock
        self._settings = settings
        self._kinds = ServedKinds(cluster)
        self._store = Store()
        self._start_watch = around.watch
        metrics.resources.set_function(self._store.resources)
        metrics.show_resources(self._store.all_resources)
        self._watching = WatchSession(
            metrics,
            lambda manifest: self._controller.seen(manifest),
            lambda *listed: self._controller.listed(*listed),
            settings.watch_namespaces,
        )
        self._reports = Reports(
            lambda *news: self._controller.reported(*news),
            metrics,
            around.fetch,
            settings.report_wait_seconds,
            clock,
            self._store.gate_is_open,
            settings.report_connections,
        )
        self._events = Publisher(cluster, settings.identity, clock)
        metrics.warming.set_function(self._reports.warming)
        self._planner = around.planner
        ask, answers = (self._planner.ask, self._planner.answers) if self._planner else (None, SYNCHRONOUS_ANSWERS)
        writer = Writer(cluster, self._store, clock)
        decision = partial(
            decide, defaults=settings.defaults(), answers=answers, read=RecentInferences(CACHED_SPECS).read
        )
        reconciler = Reconciler(self._store, self._reports, writer, self._events, metrics, decision, clock, ask)
        self._controller = Controller(reconciler, settings.reconcile_concurrency)

    async def run(self) -> bool:
        """Run until cancelled. Returns when the watches have ended, with True if another term should follow."""
        async with self._reports, self._events, self._planner or nullcontext():
            return await self._watch()

    def stop_work(self) -> None:
        """Stop all writes, even if other parts take time to end."""
        self._controller.stop()

    def why_not_alive(self) -> str | None:
        """Return why a watch has been neither answered nor retried for too long; None if all are alive."""
        idle = self._watching.idle_seconds()
        return f"a watch was not renewed for {idle:.0f} s" if idle > IDLE_MOST_SECONDS else None

    def why_not_ready(self) -> str | None:
        """Return which kinds cannot be watched or are not listed yet, then how many first reconciles are left.

        A kind cannot be watched if permissions are missing or the API server is unavailable.
        """
        if failing := _plurals(self._watching.failing):
            return f"cannot watch {failing}"
        unlisted = _plurals(kind for kind, _ in self._store.unlisted)
        return f"waits for the first list of {unlisted}" if unlisted else self._controller.why_not_ready()

    def _has_use(self, kind: Kind) -> bool:
        """Return True if an optional kind is needed."""
        # A default class applies to all resources as soon as it can be created.
        return kind is CLASS or self._store.any_resource(_is_over_several_nodes)

    async def _watch(self) -> bool:
        await self._kinds.wait_until_defined(RESOURCE)
        kinds = await self._kinds.now()
        self._store.groups_served = LEADER_WORKER_SET in kinds
        # Before the first watch: the store would wait forever for a list that came earlier.
        self._store.unlisted = {
            (kind, namespace)
            for kind in kinds
            for namespace in (self._settings.watch_namespaces if kind.namespaced else ()) or (None,)
        }
        watches = self._start_watch(self._watching, kinds, self._controller.seen, self._controller.gone)
        watching = asyncio.create_task(watches, name="watches")
        more = asyncio.create_task(
            self._kinds.wait_for_new_kind(kinds, self._has_use),
            name="optional kinds",
        )
        try:
            await asyncio.wait({watching, more}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            return not watching.done()
        finally:
            watching.cancel()
            more.cancel()
            # kopf closes connections during cancellation. The next term must not find them.
            await asyncio.gather(watching, more, return_exceptions=True)


def _plurals(kinds: Iterable[Kind]) -> str:
    return ", ".join(sorted({kind.plural for kind in kinds}))


def _is_over_several_nodes(resource: Mapping[str, Any]) -> bool:
    """Return True if a resource has several nodes per replica. The raw spec may be unreadable."""
    spread = resource.get("spec", {}).get("parallelism") or {}
    return bool(spread.get("nodes", 1) != 1)
