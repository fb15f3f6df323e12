"""What the leader runs: watches, reports and reconciles, wired together. Followers run none of it."""

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
from gaudi_operator.shell.polling.status_port import Fetch
from gaudi_operator.shell.reconciling.controller import Controller
from gaudi_operator.shell.reconciling.reconcile import Reconciler
from gaudi_operator.shell.watching.list_watch import SERVER_TIMEOUT_SECONDS, Seen
from gaudi_operator.shell.watching.store import Store
from gaudi_operator.shell.watching.watches import WatchSession
from gaudi_operator.shell.writing.apply import Writer
from gaudi_operator.shell.writing.events import Publisher

# A minute beyond the longest watch: room for the delays of kopf, which watches again at once when one ends.
IDLE_MOST_SECONDS = SERVER_TIMEOUT_SECONDS + 60

RECENT = 64
"""Resources whose specs are kept as they were read: as many as move at a time, and not as many as there may be."""

log = logging.getLogger(__name__)


Watch = Callable[[WatchSession, Collection[Kind], Seen, Seen], Coroutine[Any, Any, None]]
"""Watches kinds until cancelled: lists go to the session, changes to the first of the others, deletions to the last."""


class Aside(Protocol):
    """Runs work where nothing else of the process is in its way."""

    def __call__(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Run it."""


async def _here(work: Coroutine[Any, Any, None]) -> None:
    await work


@dataclass(frozen=True)
class Surroundings:
    """All that a replica meets outside of itself. Without a planner plans are worked out by whoever decides.

    What an election asks goes by `lease_cluster`, where there is one, and is run by `aside`.
    """

    cluster: Cluster
    watch: Watch
    fetch: Fetch
    clock: Clock = SYSTEM
    planner: Planner | None = None
    lease_cluster: Cluster | None = None
    aside: Aside = _here


class Leader:
    """One term of leadership."""

    def __init__(self, settings: Settings, around: Surroundings, metrics: Metrics) -> None:
        """Nothing runs yet."""
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
        decision = partial(decide, defaults=settings.defaults(), answers=answers, read=RecentInferences(RECENT).read)
        reconciler = Reconciler(self._store, self._reports, writer, self._events, metrics, decision, clock, ask)
        self._controller = Controller(reconciler, settings.reconcile_concurrency)

    async def run(self) -> bool:
        """Work until cancelled. A return means that the watches have ended, and whether another term is to follow."""
        async with self._reports, self._events, self._planner or nullcontext():
            return await self._watch()

    def stop_work(self) -> None:
        """No write starts after this, whatever else takes time to end."""
        self._controller.stop()

    def why_not_alive(self) -> str | None:
        """A watch that was neither answered nor tried again for too long."""
        idle = self._watching.idle_seconds()
        return f"a watch was not renewed for {idle:.0f} s" if idle > IDLE_MOST_SECONDS else None

    def why_not_ready(self) -> str | None:
        """Kinds that cannot be watched: rights are missing, the API server is away, or has not listed them yet. Then
        how many resources are still to be looked at for the first time.
        """
        if failing := _plurals(self._watching.failing):
            return f"cannot watch {failing}"
        unlisted = _plurals(kind for kind, _ in self._store.unlisted)
        return f"waits for the first list of {unlisted}" if unlisted else self._controller.why_not_ready()

    def _has_use(self, kind: Kind) -> bool:
        """Whether a kind that is not installed is worth looking for."""
        # A default class counts for everybody: from the moment on in which it can be made.
        return kind is CLASS or self._store.any_resource(_is_over_several_nodes)

    async def _watch(self) -> bool:
        await self._kinds.until_defined(RESOURCE)
        kinds = await self._kinds.now()
        self._store.groups_served = LEADER_WORKER_SET in kinds
        # Before the first watch: a list that came earlier would be waited for for ever.
        self._store.unlisted = {
            (kind, namespace)
            for kind in kinds
            for namespace in (self._settings.watch_namespaces if kind.namespaced else ()) or (None,)
        }
        watches = self._start_watch(self._watching, kinds, self._controller.seen, self._controller.gone)
        watching = asyncio.create_task(watches, name="watches")
        more = asyncio.create_task(
            self._kinds.until_more(kinds, self._has_use),
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
            # kopf closes connections while it is cancelled; another term must find none of them.
            await asyncio.gather(watching, more, return_exceptions=True)


def _plurals(kinds: Iterable[Kind]) -> str:
    return ", ".join(sorted({kind.plural for kind in kinds}))


def _is_over_several_nodes(resource: Mapping[str, Any]) -> bool:
    """Read as it came: a spec that this operator cannot read wants nothing."""
    spread = resource.get("spec", {}).get("parallelism") or {}
    return bool(spread.get("nodes", 1) != 1)
