"""The work of the leader: watches, reports and reconciles. Followers do none of this work."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.decide import decide
from gaudi_operator.core.inference import InferenceCache
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import ClusterClient
from gaudi_operator.shell.kinds import CLASS, LEADER_WORKER_SET, RESOURCE, Kind, ServedKinds
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.policy_checks import PolicyChecks
from gaudi_operator.shell.polling.reports import ReportPoller
from gaudi_operator.shell.polling.status_port import FetchFromStatusPort
from gaudi_operator.shell.reconciling.controller import Controller
from gaudi_operator.shell.reconciling.reconcile import Reconciler
from gaudi_operator.shell.watching.kopf_watches import KopfWatchSession
from gaudi_operator.shell.watching.list_watch import SERVER_TIMEOUT_SECONDS, Seen
from gaudi_operator.shell.watching.store import Store
from gaudi_operator.shell.writing.event_writer import EventPublisher
from gaudi_operator.shell.writing.writer import Writer

# If no watch was renewed for this time, the leader is not alive. The time is the longest watch plus one minute, because
# kopf delays the next watch.
IDLE_MOST_SECONDS = SERVER_TIMEOUT_SECONDS + 60

CACHED_SPECS = 64
"""The number of parsed specs to cache. More than this rarely change at the same time."""

log = logging.getLogger(__name__)


Watch = Callable[[KopfWatchSession, Collection[Kind], Seen, Seen], Coroutine[Any, Any, None]]
"""A function that watches kinds until cancelled.

The session receives lists, the first callback changed objects, and the last callback deleted objects.
"""


class _WorkRunner(Protocol):
    """A function that runs work where the rest of the process cannot delay the work."""

    def __call__(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Run `work`, and wait until the work ends."""


async def _run_inline(work: Coroutine[Any, Any, None]) -> None:
    await work


@dataclass(frozen=True)
class LeaderDependencies:
    """The dependencies of a leader.

    `election_runner` runs the leader election, which uses `lease_cluster` if it is set.
    """

    cluster: ClusterClient
    watch: Watch
    fetch: FetchFromStatusPort
    clock: Clock = SYSTEM
    lease_cluster: ClusterClient | None = None
    election_runner: _WorkRunner = _run_inline


class Leader:
    """The leader during one term of leadership."""

    def __init__(self, settings: Settings, dependencies: LeaderDependencies, metrics: MonitoringMetrics) -> None:
        """Create and connect the components without starting them."""
        cluster, clock = dependencies.cluster, dependencies.clock
        self._settings = settings
        self._kinds = ServedKinds(cluster)
        self._store = Store()
        self._start_watch = dependencies.watch
        metrics.resources.set_function(self._store.count_resources)
        metrics.set_resource_source(self._store.all_resources)
        self._watch_session = KopfWatchSession(
            metrics,
            lambda manifest: self._controller.handle_change(manifest),
            lambda *arguments: self._controller.handle_list_end(*arguments),
            settings.watch_namespaces,
        )
        self._report_poller = ReportPoller(
            lambda *arguments: self._controller.handle_report(*arguments),
            metrics,
            dependencies.fetch,
            settings.report_wait_seconds,
            clock,
            self._store.gate_is_open,
            settings.report_connections,
        )
        self._publisher = EventPublisher(cluster, settings.identity, clock)
        metrics.warming.set_function(self._report_poller.count_warming_pods)
        self._policy_checks = PolicyChecks(clock)
        writer = Writer(cluster, self._store, clock)
        decide_resource = partial(
            decide,
            defaults=settings.installation_defaults(),
            find_result=self._policy_checks.find_result,
            read=InferenceCache(CACHED_SPECS).read,
        )
        reconciler = Reconciler(
            *(self._store, self._report_poller, writer, self._publisher, metrics, decide_resource),
            self._policy_checks.queue_check,
            clock,
        )
        self._controller = Controller(reconciler, settings.reconcile_concurrency)

    async def run(self) -> bool:
        """Run until cancelled, until the watches end, or until other kinds must be watched.

        Returns True if other kinds must be watched.
        """
        async with self._report_poller, self._publisher, self._policy_checks:
            return await self._watch()

    def stop_work(self) -> None:
        """Stop all writes immediately. Watches and polls end later."""
        self._controller.stop()

    def why_not_alive(self) -> str | None:
        """Return a reason if a watch was not answered or retried for too long; None if all watches are alive."""
        idle_seconds = self._watch_session.idle_seconds()
        return f"a watch was not renewed for {idle_seconds:.0f} s" if idle_seconds > IDLE_MOST_SECONDS else None

    def why_not_ready(self) -> str | None:
        """Return the first reason why the leader is not ready; None if the leader is ready.

        Possible reasons are a kind that cannot be watched (no permission, or no API server), a first list that is
        missing, and resources that wait for their first reconcile.
        """
        if failing_kinds := _plurals(self._watch_session.failing_kinds):
            return f"cannot watch {failing_kinds}"
        unlisted_kinds = _plurals(kind for kind, _ in self._store.unlisted)
        return f"waiting for the first list of {unlisted_kinds}" if unlisted_kinds else self._controller.why_not_ready()

    def _needs_kind(self, kind: Kind) -> bool:
        """Return True if the optional kind `kind` is needed."""
        # Always watch classes: a new default class applies to all resources immediately.
        return kind is CLASS or self._store.any_resource(_has_several_nodes)

    async def _watch(self) -> bool:
        await self._kinds.wait_until_defined(RESOURCE)
        kinds = await self._kinds.find_kinds_to_watch()
        self._store.groups_served = LEADER_WORKER_SET in kinds
        # Set the unlisted kinds before the watches start. Otherwise a list may arrive before its kind is set as
        # unlisted, and the store would wait for this list forever.
        self._store.unlisted = {
            (kind, namespace)
            for kind in kinds
            for namespace in (self._settings.watch_namespaces if kind.namespaced else ()) or (None,)
        }
        watches = self._start_watch(
            self._watch_session, kinds, self._controller.handle_change, self._controller.handle_deletion
        )
        watch_task = asyncio.create_task(watches, name="watches")
        changed_kinds_task = asyncio.create_task(
            self._kinds.wait_for_change(kinds, self._watch_session.failing_kinds, self._needs_kind),
            name="optional kinds",
        )
        try:
            await asyncio.wait({watch_task, changed_kinds_task}, return_when=asyncio.FIRST_COMPLETED)
            if watch_task.done():
                watch_task.result()
            return not watch_task.done()
        finally:
            watch_task.cancel()
            changed_kinds_task.cancel()
            # Wait until the cancelled tasks have ended, because kopf closes its connections during cancellation. All
            # connections must be closed before the next term as leader.
            await asyncio.gather(watch_task, changed_kinds_task, return_exceptions=True)


def _plurals(kinds: Iterable[Kind]) -> str:
    return ", ".join(sorted({kind.plural for kind in kinds}))


def _has_several_nodes(resource: Mapping[str, Any]) -> bool:
    """Return True if a resource has several nodes per replica, or an invalid number of nodes."""
    parallelism = resource.get("spec", {}).get("parallelism") or {}
    return bool(parallelism.get("nodes", 1) != 1)
