"""One replica of the operator. It waits for the lease, leads, and stops before another replica can lead."""

import asyncio
import gc
import logging
import signal
import sys
from contextlib import AsyncExitStack
from functools import partial

from gaudi_operator.settings import Settings, read_settings
from gaudi_operator.shell.client import ClusterClient, Connection
from gaudi_operator.shell.leader import Leader, LeaderDependencies
from gaudi_operator.shell.lease import LeaseElection, LeaseThread
from gaudi_operator.shell.metrics.logs import configure_operator_logs
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics, serve_monitoring
from gaudi_operator.shell.polling.status_port import StatusPortClient
from gaudi_operator.shell.watching.kopf_watches import watch_with_kopf
from gaudi_runtime.process.open_files import raise_open_file_limit

DEEPEST = 30_000
"""The recursion limit. The API server accepts JSON of 10,000 levels in a field without a schema, such as the data of a
ControllerRevision with the labels of the operator. With Python's default limit, such an object would end the watches.
"""

SWITCH_SECONDS = 0.001
"""The switch interval of threads, a fifth of Python's default. Each step of the event loop waits this long while
another thread computes a decision about a thousand pods.
"""

NEW_OBJECTS = 10_000
"""The number of new objects that starts a garbage collection. A reconcile creates thousands of objects, most of them
without cycles: with Python's default of 700, collections take a seventh of the CPU time.
"""

log = logging.getLogger("gaudi_operator")


def run_replica() -> int:
    """Run one replica of the operator with its settings, and return the exit code of the process."""
    settings = read_settings()
    sys.setrecursionlimit(DEEPEST)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(NEW_OBJECTS)
    gc.freeze()  # imported modules stay, so collections need not visit them
    configure_operator_logs(settings.log_format, settings.log_level)
    raise_open_file_limit()
    return asyncio.run(_run(settings))


async def _run(settings: Settings) -> int:
    """Serve until SIGTERM (exit code 0) or until the lease or the watches are lost (1)."""
    stop = asyncio.Event()
    take_signals = partial(_add_signal_handlers, stop)
    # Handle signals first, because the connection below may wait for an unreachable API server.
    take_signals()
    metrics = MonitoringMetrics()
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await Connection.connect(settings.kubeconfig))
        status_ports = await stack.enter_async_context(StatusPortClient())
        lease_thread = await stack.enter_async_context(LeaseThread())
        lease_connection = await lease_thread.run(_open_connection(settings))
        stack.push_async_callback(lambda: lease_thread.run(lease_connection.__aexit__()))
        dependencies = LeaderDependencies(
            ClusterClient(connection, metrics.count_request),
            partial(watch_with_kopf, connection, settings.watch_namespaces, take_signals),
            status_ports.fetch,
            lease_cluster=ClusterClient(lease_connection, metrics.count_request),
            election_runner=lease_thread.run,
        )
        operator = OperatorReplica(settings, dependencies, metrics)
        port = await stack.enter_async_context(
            serve_monitoring(
                settings.http_host,
                settings.http_port,
                metrics,
                # Use lambdas, because the leader object is replaced when a term ends.
                lambda: operator.leader.why_not_alive(),
                lambda: operator.leader.why_not_ready(),
            )
        )
        log.info("Serving /healthz, /livez, /readyz and /metrics on port %d.", port)
        return await operator.run(stop)


async def _open_connection(settings: Settings) -> Connection:
    """Return a connection that belongs to the running event loop."""
    return await (await Connection.connect(settings.kubeconfig)).__aenter__()


class OperatorReplica:
    """The life cycle of a replica: follower, leader, stopped."""

    def __init__(self, settings: Settings, dependencies: LeaderDependencies, metrics: MonitoringMetrics) -> None:
        """Create a follower that has not requested the lease yet."""
        self._metrics = metrics
        self._election = LeaseElection(dependencies.lease_cluster or dependencies.cluster, settings, dependencies.clock)
        self._election_runner = dependencies.election_runner
        self._new_leader = partial(Leader, settings, dependencies, metrics)
        self.leader = self._new_leader()
        dependencies.cluster.may_write = self._election.leads

    async def run(self, stop: asyncio.Event) -> int:
        """Run until the stop signal or the loss of the lease, and return the exit code of the process."""
        stop_signal = asyncio.create_task(stop.wait(), name="stop signal")
        election = asyncio.create_task(self._election_runner(self._election.acquire()), name="election")
        await asyncio.wait({stop_signal, election}, return_when=asyncio.FIRST_COMPLETED)
        if not election.done():
            await _cancel(election)
            return 0
        election.result()
        self._metrics.leader.set(1)
        renewal = asyncio.create_task(self._election_runner(self._election.renew_until_lost()), name="lease")
        terms = asyncio.create_task(self._run_terms(), name="leader")
        await asyncio.wait({stop_signal, renewal, terms}, return_when=asyncio.FIRST_COMPLETED)
        # Stop all work before the first await. Tasks take time to end, and another replica may become the leader in the
        # meantime.
        self.leader.stop_work()
        await _cancel(terms)
        self._metrics.leader.set(0)
        await _cancel(renewal)
        # Release the lease last, because only then can this process no longer write.
        await self._election_runner(self._election.release())
        # If the lease was lost, the process ends with an error, and the kubelet restarts the process as a follower.
        return 0 if stop_signal.done() else 1

    async def _run_terms(self) -> None:
        """Run terms under one lease. A new term starts for other kinds, which kopf cannot change while it runs."""
        while await self.leader.run():
            self.leader.stop_work()
            self.leader = self._new_leader()


def _add_signal_handlers(stop: asyncio.Event) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    except Exception:
        log.exception("%s has failed", task.get_name())
