"""One replica of the operator: be elected, then lead; stop working before anybody else can start."""

import asyncio
import gc
import logging
import signal
import sys
from contextlib import AsyncExitStack
from functools import partial

from gaudi_operator.settings import Settings, from_environment
from gaudi_operator.shell.client import Cluster, Connection
from gaudi_operator.shell.lead import Leader, LeaderDependencies
from gaudi_operator.shell.lease import Election, LeaseThread
from gaudi_operator.shell.metrics.monitoring import Metrics, configure_logs, serving
from gaudi_operator.shell.plans.planning import Planner
from gaudi_operator.shell.polling.status_port import StatusPortClient
from gaudi_operator.shell.watching.watches import watch
from gaudi_runtime.process.open_files import allow_open_files

DEEPEST = 30_000
"""Levels of calls. The API server lets JSON of 10,000 levels through where a field may hold anything, such as the data
of a ControllerRevision that somebody labels as ours: Python's own limit would end the watches with it, for ever.
"""

SWITCH_SECONDS = 0.001
"""After so long a thread lets others run that want to, five times as soon as is Python's default: each turn of the loop
waits for it once while a decision on a thousand pods is worked out in a thread.
"""

NEW_OBJECTS = 10_000
"""So many objects more than before are looked through for cycles. Python's default, 700, is a seventh of all processor
time here: a reconcile makes thousands, and nearly all of them go by themselves.
"""

log = logging.getLogger("gaudi_operator")


def live() -> int:
    """Read the settings, live a replica's life, and return the exit code of the process."""
    settings = from_environment()
    sys.setrecursionlimit(DEEPEST)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(NEW_OBJECTS)
    gc.freeze()  # what was imported stays, and need not be looked through
    configure_logs(settings.log_format, settings.log_level)
    allow_open_files()
    return asyncio.run(run(settings))


async def run(settings: Settings) -> int:
    """Serve until SIGTERM (exit code 0) or until the lease or the watches are lost (1)."""
    stop = asyncio.Event()
    take_signals = partial(_take_signals, stop)
    # From the first second: what follows waits for an API server that may be away.
    take_signals()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await Connection.connect(settings.kubeconfig))
        ports = await stack.enter_async_context(StatusPortClient())
        lease = await stack.enter_async_context(LeaseThread())
        lease_connection = await lease.run(_connected(settings))
        stack.push_async_callback(lambda: lease.run(lease_connection.__aexit__()))
        around = LeaderDependencies(
            Cluster(connection, metrics.count_request),
            partial(watch, connection, settings.watch_namespaces, take_signals),
            ports.fetch,
            planner=Planner(settings.plan_memory_mib * 2**20, settings.plan_cpu_seconds),
            lease_cluster=Cluster(lease_connection, metrics.count_request),
            aside=lease.run,
        )
        operator = Operator(settings, around, metrics)
        port = await stack.enter_async_context(
            serving(
                settings.http_host,
                settings.http_port,
                metrics,
                # Asked again each time: a term may end and another leader object take its place.
                lambda: operator.leader.why_not_alive(),
                lambda: operator.leader.why_not_ready(),
            )
        )
        log.info("Serving /healthz, /livez, /readyz and /metrics on port %d.", port)
        return await operator.run(stop)


async def _connected(settings: Settings) -> Connection:
    """A connection of the loop that runs this."""
    return await (await Connection.connect(settings.kubeconfig)).__aenter__()


class Operator:
    """A replica's life: follower, perhaps leader, end."""

    def __init__(self, settings: Settings, around: LeaderDependencies, metrics: Metrics) -> None:
        """A follower that has not asked for the lease yet."""
        self._metrics = metrics
        self._election = Election(around.lease_cluster or around.cluster, settings, around.clock)
        self._aside = around.aside
        self._new_leader = partial(Leader, settings, around, metrics)
        self.leader = self._new_leader()
        around.cluster.may_write = self._election.leads

    async def run(self, stop: asyncio.Event) -> int:
        """The exit code of the process."""
        stopped = asyncio.create_task(stop.wait(), name="stop signal")
        acquired = asyncio.create_task(self._aside(self._election.acquire()), name="election")
        await asyncio.wait({stopped, acquired}, return_when=asyncio.FIRST_COMPLETED)
        if not acquired.done():
            await _cancel(acquired)
            return 0
        acquired.result()
        self._metrics.leader.set(1)
        kept = asyncio.create_task(self._aside(self._election.keep()), name="lease")
        led = asyncio.create_task(self._lead(), name="leader")
        await asyncio.wait({stopped, kept, led}, return_when=asyncio.FIRST_COMPLETED)
        # Before anything is awaited: tasks take time to end, and by then another replica may lead.
        self.leader.stop_work()
        await _cancel(led)
        self._metrics.leader.set(0)
        await _cancel(kept)
        # Last: nothing of this process can write any more.
        await self._aside(self._election.release())
        # Whoever lost the lease restarts as a follower, with nothing in memory: the kubelet sees to that.
        return 0 if stopped.done() else 1

    async def _lead(self) -> None:
        """Term after term under one lease: kopf cannot be given more kinds to watch, and takes all tasks with it."""
        while await self.leader.run():
            self.leader.stop_work()
            self.leader = self._new_leader()


def _take_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    except Exception:
        log.exception("%s has failed", task.get_name())
