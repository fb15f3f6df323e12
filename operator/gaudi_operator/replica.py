"""One replica of the operator: be elected, then lead; stop working before anybody else can start."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from gaudi_operator.settings import Settings, from_environment
from gaudi_operator.shell.client import Cluster
from gaudi_operator.shell.http_server import serving
from gaudi_operator.shell.lead import Leader
from gaudi_operator.shell.lease import Election, Terms
from gaudi_operator.shell.logs import configure
from gaudi_operator.shell.metrics import Metrics

log = logging.getLogger("gaudi_operator")


def live() -> int:
    """Read the settings, live a replica's life, and return the exit code of the process."""
    settings = from_environment()
    configure(settings.log_format, settings.log_level)
    return asyncio.run(run(settings))


async def run(settings: Settings) -> int:
    """Serve until SIGTERM (exit code 0) or until the lease or the watches are lost (1)."""
    stop = asyncio.Event()
    take_signals = partial(_take_signals, stop)
    take_signals()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(await Cluster.connect(settings.kubeconfig, metrics.count_request))
        operator = Operator(settings, cluster, metrics, take_signals)
        port = await stack.enter_async_context(
            serving(settings.http_host, settings.http_port, metrics, operator.why_not_alive, operator.why_not_ready)
        )
        log.info("Serving /healthz, /livez, /readyz and /metrics on port %d.", port)
        return await operator.run(stop)


class Operator:
    """A replica's life: follower, perhaps leader, end."""

    def __init__(
        self, settings: Settings, cluster: Cluster, metrics: Metrics, take_signals: Callable[[], None]
    ) -> None:
        """A follower that has not asked for the lease yet."""
        terms = Terms(
            settings.namespace,
            settings.lease_name,
            settings.identity,
            settings.lease_duration_seconds,
            settings.renew_deadline_seconds,
            settings.retry_period_seconds,
        )
        self._metrics = metrics
        self._election = Election(cluster, terms)
        self._new_leader = partial(Leader, settings, cluster, metrics, take_signals)
        self._leader = self._new_leader()
        cluster.may_write = self._election.leads

    def why_not_alive(self) -> str | None:
        """Followers are alive as long as they answer."""
        return self._leader.why_not_alive()

    def why_not_ready(self) -> str | None:
        """Followers are ready to take over as long as they answer."""
        return self._leader.why_not_ready()

    async def run(self, stop: asyncio.Event) -> int:
        """The exit code of the process."""
        stopped = asyncio.create_task(stop.wait(), name="stop signal")
        acquired = asyncio.create_task(self._election.acquire(), name="election")
        await asyncio.wait({stopped, acquired}, return_when=asyncio.FIRST_COMPLETED)
        if not acquired.done():
            await _cancel(acquired)
            return 0
        acquired.result()
        self._metrics.leader.set(1)
        kept = asyncio.create_task(self._election.keep(), name="lease")
        led = asyncio.create_task(self._lead(), name="leader")
        await asyncio.wait({stopped, kept, led}, return_when=asyncio.FIRST_COMPLETED)
        self._leader.stop_work()
        await _cancel(led)
        self._metrics.leader.set(0)
        await _cancel(kept)
        await self._election.release()
        return 0 if stopped.done() else 1

    async def _lead(self) -> None:
        """Term after term under one lease: kopf cannot be given more kinds to watch, and takes all tasks with it."""
        while await self._leader.run():
            self._leader.stop_work()
            self._leader = self._new_leader()


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
