"""What the leader runs: watches, reports and passes, wired together. Followers run none of it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from gaudi_operator.core.decide import decide
from gaudi_operator.errors import NotFound, OperatorError
from gaudi_operator.settings import Settings
from gaudi_operator.shell.apply import Writer
from gaudi_operator.shell.backoff import Backoff
from gaudi_operator.shell.client import Cluster
from gaudi_operator.shell.events import Publisher
from gaudi_operator.shell.handlers import SERVER_TIMEOUT_SECONDS, watch
from gaudi_operator.shell.kinds import LEADER_WORKER_SET, OPTIONAL, RESOURCE, WATCHED, Kind
from gaudi_operator.shell.metrics import Metrics
from gaudi_operator.shell.reconcile import Effects, Reconciler
from gaudi_operator.shell.reports import Reports
from gaudi_operator.shell.status import StatusWriter
from gaudi_operator.shell.store import Key, Store
from gaudi_operator.shell.watch_session import WatchSession

MORE_KINDS_SECONDS = 20.0
"""Between two looks for an optional kind that a resource has use for."""
IDLE_MOST_SECONDS = SERVER_TIMEOUT_SECONDS + 60

log = logging.getLogger(__name__)


class Leader:
    """One term of leadership."""

    def __init__(
        self, settings: Settings, cluster: Cluster, metrics: Metrics, take_signals: Callable[[], None]
    ) -> None:
        """Nothing runs yet. `take_signals` is called when somebody else has taken them."""
        self._settings = settings
        self._cluster = cluster
        self._store = Store()
        self._take_signals = take_signals
        self._complete = False
        self._early: set[Key] = set()
        self._metrics = metrics
        metrics.resources.set_function(self._store.resources)
        self._watching = WatchSession(metrics, self._listed)
        self._reports = Reports(self._wake, metrics, settings.report_connections, settings.report_wait_seconds)
        self._events = Publisher(cluster, settings.identity)
        metrics.warming.set_function(self._reports.warming)
        writer = Writer(cluster, self._store)
        effects = Effects(
            self._store,
            self._reports,
            writer,
            StatusWriter(writer),
            self._events,
            metrics,
        )
        self._reconciler = Reconciler(
            effects, partial(decide, defaults=settings.defaults()), settings.reconcile_concurrency
        )

    async def run(self) -> None:
        """Work until cancelled; a return means that the watches have ended."""
        async with self._reports, self._events:
            await self._watch()

    def stop_work(self) -> None:
        """No write starts after this, whatever else takes time to end."""
        self._reconciler.stop()

    def why_not_alive(self) -> str | None:
        """A watch that was neither answered nor tried again for too long."""
        idle = self._watching.idle_seconds()
        return f"a watch was not renewed for {idle:.0f} s" if idle > IDLE_MOST_SECONDS else None

    def why_not_ready(self) -> str | None:
        """Kinds that cannot be watched: rights are missing, or the API server is away."""
        failing = sorted(kind.plural for kind in self._watching.failing)
        return f"cannot watch {', '.join(failing)}" if failing else None

    async def _watch(self) -> None:
        """Watch what is there, and from anew once more of it is installed."""
        await self._until_defined()
        while True:
            kinds = {*WATCHED, *[kind for kind in OPTIONAL if await self._is_served(kind)]}
            watching = asyncio.create_task(self._watch_kinds(kinds), name="watches")
            more = asyncio.create_task(self._until_more(kinds), name="optional kinds")
            try:
                await asyncio.wait({watching, more}, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    return watching.result()
            finally:
                for task in (watching, more):
                    task.cancel()
                await asyncio.gather(watching, more, return_exceptions=True)

    async def _watch_kinds(self, kinds: Collection[Kind]) -> None:
        self._complete = False
        self._watching.forget()
        self._store.groups_served = LEADER_WORKER_SET in kinds
        await watch(
            self._cluster.server,
            lambda: self._cluster.watching_session(self._watching),
            self._settings.watch_namespaces,
            kinds,
            self._seen,
            self._deleted,
            self._all_listed,
            self._take_signals,
        )

    async def _until_more(self, kinds: Collection[Kind]) -> None:
        """Until a kind is served that is not among `kinds`. Asked only while a resource has use for it."""
        missing = [kind for kind in OPTIONAL if kind not in kinds]
        while True:
            await asyncio.sleep(MORE_KINDS_SECONDS)
            if not missing or not self._store.any_resource(_wants_groups):
                continue
            for kind in missing:
                if await self._is_served(kind):
                    log.info("%s can be watched now: it was installed.", kind.plural)
                    self._early.update(self._store.keys())
                    return

    async def _until_defined(self) -> None:
        """Wait for the CustomResourceDefinition: a chart may install it after us."""
        backoff = Backoff(1.0, 10.0)
        while not await self._is_served(RESOURCE):
            log.warning("%s is not defined in this cluster yet: install the CRD.", RESOURCE.kind)
            await asyncio.sleep(backoff.next())

    async def _is_served(self, kind: Kind) -> bool:
        """Whether the cluster knows the kind; asked again until the API server can tell."""
        backoff = Backoff(1.0, 10.0)
        while True:
            try:
                found = await self._cluster.request("GET", f"/apis/{kind.api_version}")
            except NotFound:
                return False
            except OperatorError as error:
                log.warning("%s", error)
                await asyncio.sleep(backoff.next())
            else:
                return any(each["name"] == kind.plural for each in found.get("resources") or ())

    def _seen(self, manifest: Mapping[str, Any]) -> None:
        if key := self._store.put(manifest):
            self._wake(key)

    def _deleted(self, manifest: Mapping[str, Any]) -> None:
        if key := self._store.remove(manifest):
            self._wake(key)

    def _listed(self, kind: Kind, namespace: str | None, uids: set[str], version: int) -> None:
        for key in self._store.sweep(kind, namespace, uids, version):
            log.info("%s %s vanished unseen", kind.kind, key, extra={"resource": f"{key.namespace}/{key.name}"})
            self._wake(key)

    def _wake(self, key: Key, urgent: bool = True) -> None:
        """No pass before every kind was listed: it would take what is not listed yet for missing."""
        if self._complete:
            self._reconciler.wake(key, urgent)
        else:
            self._early.add(key)

    def _all_listed(self) -> None:
        if not self._complete:
            self._complete = True
            for key in self._early:
                self._wake(key)
            self._early.clear()


def _wants_groups(resource: Mapping[str, Any]) -> bool:
    """Read as it came: a spec that this operator cannot read wants nothing."""
    spread = resource.get("spec", {}).get("parallelism") or {}
    return bool(spread.get("nodes", 1) != 1)
