"""A replica of the operator in a simulation. The simulation provides only the transport, the watches and the clock.

The transport injects faults into requests.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Coroutine, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

from gaudi_operator.clock import Clock
from gaudi_operator.core.observed import trim_observed_report
from gaudi_operator.replica import OperatorReplica
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import ApiClientResponse, ClusterClient
from gaudi_operator.shell.kinds import Kind
from gaudi_operator.shell.leader import LeaderDependencies
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.status_port import CONNECT_SECONDS, READ_SECONDS, StatusPort, StatusPortUnreachable
from gaudi_operator.shell.watching.kopf_watches import KopfWatchSession
from gaudi_operator.shell.watching.list_watch import Seen
from gaudi_runtime.contract.report import WarmupReport
from tests.world.api import Api
from tests.world.api_server import ApiServer
from tests.world.clock import moment
from tests.world.commands import Fault
from tests.world.loop import Loop
from tests.world.nodes import POLLED_SECONDS, Nodes

LATE_SECONDS = 1.0
RELISTED_SECONDS = 30
"""The seconds after which the version of a stuck watch has expired, so that the watch must list again."""

_running: ContextVar["Replica | None"] = ContextVar("replica", default=None)


@dataclass
class Outside:
    """The environment that all replicas share. `blind` contains, by kind, the time until which watches are stuck.

    `faults` apply to the next writes. `trespasses` contains the times of writes by a replica that did not hold the
    Lease.
    """

    api: Api
    leases: Api
    nodes: Nodes
    server: ApiServer
    loop: Loop = field(default_factory=Loop)
    faults: deque[Fault] = field(default_factory=deque)
    blind: dict[str, int] = field(default_factory=dict)
    trespasses: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Install a task factory that attributes each task to the replica that created the task."""
        self.loop.set_task_factory(_task_of_replica)

    def holder(self) -> str:
        """The identity of the replica that holds the Lease."""
        return str(next((each["spec"]["holderIdentity"] for each in self.leases.kind("Lease")), ""))


class Replica:
    """One process of the operator. Until `cut_until` (in seconds), its requests do not reach the API server."""

    def __init__(self, outside: Outside, settings: Settings) -> None:
        """Create the process. The process runs while the loop runs."""
        self._outside, self._settings = outside, settings
        self._watching = self._failing = self._killed = False
        self.cut_until, self.cut_lease_only = 0.0, False
        self.metrics, self.tasks = MonitoringMetrics(), set[asyncio.Task[Any]]()
        loop = outside.loop
        clock = Clock(now=lambda: moment(loop.time()), monotonic=loop.time)
        around = LeaderDependencies(ClusterClient(self, self.metrics.count_request), self._watch, self._fetch, clock)
        context = copy_context()
        context.run(_running.set, self)
        operator = OperatorReplica(settings, around, self.metrics)
        self._life = loop.create_task(operator.run(asyncio.Event()), context=context)

    @property
    def is_running(self) -> bool:
        """Whether the process still runs."""
        return not self._life.done() and not self._killed

    @property
    def is_operational(self) -> bool:
        """Whether the replica is the leader, has listed all kinds, and succeeded with its last request."""
        return self.is_running and self._watching and not self._failing

    @property
    def is_leader(self) -> bool:
        """Whether the Lease names this replica."""
        return self.is_running and self._outside.holder() == self._settings.identity

    @property
    def defects(self) -> float:
        """The number of reconciles that failed because of a defect in the operator."""
        return self.metrics.registry.get_sample_value("gaudi_operator_reconciles_total", {"outcome": "bug"}) or 0

    def kill(self) -> None:
        """End the process immediately, without a clean shutdown."""
        self._killed = True
        for task in self.tasks:
            task.cancel()

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, _: float
    ) -> ApiClientResponse:
        """Send a request of this replica and return the response."""
        outside = self._outside
        ours = not ("/leases" in path or "/events" in path)
        self._failing = self._failing and not ours
        if outside.loop.time() < self.cut_until and ("/leases" in path or not self.cut_lease_only):
            self._failing = True
            raise ConnectionError("cut off")
        fault = outside.faults.popleft() if ours and method != "GET" and outside.faults else Fault.NONE
        if fault is Fault.KILLED:
            self.kill()
        if self._killed:
            raise asyncio.CancelledError
        if fault is Fault.LATE:
            await asyncio.sleep(LATE_SECONDS)
        if fault is Fault.REFUSED:
            self._failing = True
            return ApiClientResponse(503, b"{}")
        if ours and method != "GET" and outside.holder() != self._settings.identity:
            outside.trespasses.append((outside.loop.time(), self._settings.identity))
        answer = outside.server.answer(method, path, body, content_type)
        if fault is Fault.UNANSWERED:
            self._failing = True
            raise ConnectionResetError
        return answer

    async def _watch(self, session: KopfWatchSession, kinds: Collection[Kind], seen: Seen, gone: Seen) -> None:
        """List all kinds, then report changes every second. Changes of a kind with a stuck watch are delayed."""
        api = self._outside.api
        sent, stuck = dict[Kind, int](), dict[Kind, float]()
        for kind in kinds:
            sent[kind] = self._list(session, kind)
        self._watching = True
        while True:
            await asyncio.sleep(1)
            now = self._outside.loop.time()
            for kind in kinds:
                log = api.log[kind.kind]
                if now < self._outside.blind.get(kind.kind, 0):
                    stuck.setdefault(kind, now)
                elif now - stuck.pop(kind, now) > RELISTED_SECONDS:
                    sent[kind] = self._list(session, kind)
                elif sent[kind] < len(log):
                    news, sent[kind] = log[sent[kind] :], len(log)
                    for is_gone, manifest in news:
                        (gone if is_gone else seen)(manifest)

    def _list(self, session: KopfWatchSession, kind: Kind) -> int:
        api = self._outside.api
        for each in (listed := api.kind(kind.kind)):
            session.on_change(each)
        session.on_list_end(kind, None, [each["metadata"]["uid"] for each in listed], api.version)
        return len(api.log[kind.kind])

    async def _fetch(self, target: StatusPort, after: int, wait: float) -> WarmupReport:
        """Long-poll a status port. A poll of an unreachable port fails after its timeout."""
        loop, nodes = self._outside.loop, self._outside.nodes
        until = loop.time() + wait
        container = nodes.at(target.address)
        if container and not nodes.reachable(container):
            await asyncio.sleep(CONNECT_SECONDS)
            raise StatusPortUnreachable("no route to host")
        while True:
            container = nodes.at(target.address)
            if container is None or container.ended:
                raise StatusPortUnreachable("connection refused")
            if not nodes.reachable(container):
                await asyncio.sleep(until + READ_SECONDS - loop.time())
                raise StatusPortUnreachable("no answer")
            now = int(loop.time())
            if container.instance.sequence(now) != after or loop.time() >= until:
                return trim_observed_report(container.instance.report(now))
            await asyncio.sleep(min(POLLED_SECONDS, until - loop.time()))


def _task_of_replica(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    replica = context[_running] if context else _running.get()
    if replica:
        replica.tasks.add(task)
        task.add_done_callback(replica.tasks.discard)
    return task
