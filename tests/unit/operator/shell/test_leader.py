"""A leader waits for its CRD, reports why it waits, and ends its term when optional kinds appear or disappear."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterator

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import CLASS, LEADER_WORKER_SET, RESOURCE, STATEFUL_SET, WATCHED, Kind
from gaudi_operator.shell.leader import Leader, LeaderDependencies
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.status_port import StatusPort
from gaudi_operator.shell.watching.kopf_watches import KopfWatchSession
from gaudi_operator.shell.watching.list_watch import Seen
from gaudi_runtime.contract.report import WarmupReport
from tests.support.builders import gaudi_inference
from tests.unit.operator.shell.memory import NAMESPACE, Memory
from tests.world.clock import moment
from tests.world.loop import Loop

NOT_FOUND = ApiClientResponse(404, b"{}")
OURS, GROUPS = (
    ApiClientResponse(200, json.dumps({"resources": [{"name": kind.plural}]}).encode())
    for kind in (RESOURCE, LEADER_WORKER_SET)
)
EVERYWHERE = (*WATCHED, CLASS)
"""The kinds of a cluster with the chart's CRDs."""


class Term:
    """A leader's term whose watches are driven by the test. `watched` are the watched kinds."""

    def __init__(self, *namespaces: str) -> None:
        """Create a term without a running leader."""
        self.loop, self.memory = Loop(), Memory()
        self.watched: Collection[Kind] = ()
        self.ended = asyncio.Event()
        clock = Clock(now=lambda: moment(self.loop.time()), monotonic=self.loop.time)
        settings = Settings(runtime_image="runtime:1", watch_namespaces=namespaces)
        around = LeaderDependencies(self.memory.cluster, self._watch, self._fetch, clock)
        self.leader = Leader(settings, around, MonitoringMetrics())
        self.task: asyncio.Task[bool] | None = None

    async def _watch(self, session: KopfWatchSession, kinds: Collection[Kind], seen: Seen, gone: Seen) -> None:
        self.watched, self.session = kinds, session
        await self.ended.wait()

    async def _fetch(self, _: StatusPort, after: int, wait: float) -> WarmupReport:
        raise NotImplementedError

    def run(self, seconds: float = 0.0) -> None:
        """Run the leader for `seconds`."""
        self.task = self.task or self.loop.create_task(self.leader.run())
        self.loop.run_until(self.loop.time() + seconds)

    @property
    def ended_for_other_kinds(self) -> bool:
        """Whether the term has ended because other kinds must be watched."""
        return self.task is not None and self.task.done() and self.task.result()

    def list(self, kinds: Collection[Kind], namespace: str | None = None) -> None:
        """Deliver the first lists of these kinds."""

        async def come() -> None:
            for kind in kinds:
                for each in (listed := self.memory.api.kind(kind.kind)):
                    self.session.on_change(each)
                self.session.on_list_end(kind, namespace, [each["metadata"]["uid"] for each in listed], 99)

        self.loop.run_until_complete(come())


@pytest.fixture
def new_term() -> Iterator[Callable[..., Term]]:
    made: list[Term] = []

    def new(*namespaces: str) -> Term:
        made.append(Term(*namespaces))
        return made[-1]

    yield new
    for term in made:
        term.leader.stop_work()
        if term.task:
            term.task.cancel()
        term.loop.run_until(term.loop.time())
        term.loop.close()


def test_leader_waits_for_a_late_crd(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.answers = [NOT_FOUND, NOT_FOUND]
    term.run()
    assert not term.watched
    term.run(10)
    assert RESOURCE in term.watched


def test_served_optional_kind_is_watched(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.answers = [OURS, GROUPS]
    term.run()
    assert set(term.watched) == {*EVERYWHERE, LEADER_WORKER_SET, STATEFUL_SET}


def test_unserved_optional_kind_is_not_watched(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    assert set(term.watched) == set(EVERYWHERE)


@pytest.mark.parametrize("silence", [ApiClientResponse(503, b"{}"), ConnectionError()])
def test_failed_discovery_is_retried(
    new_term: Callable[..., Term], silence: ApiClientResponse | ConnectionError
) -> None:
    term = new_term()
    term.memory.answers = [silence, OURS, silence, GROUPS]
    term.run(10)
    assert LEADER_WORKER_SET in term.watched


def test_leader_is_not_ready_before_the_last_list(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    term.list([kind for kind in EVERYWHERE if kind is not RESOURCE])
    assert "gaudiinferences" in str(term.leader.why_not_ready())
    term.list([RESOURCE])
    assert term.leader.why_not_ready() is None


def test_every_namespace_is_listed_separately(new_term: Callable[..., Term]) -> None:
    term = new_term("blue", "green")
    term.run()
    term.list(WATCHED, "blue")
    assert term.leader.why_not_ready()
    term.list(WATCHED, "green")
    assert term.leader.why_not_ready() == "waiting for the first list of gaudiinferenceclasses"
    term.list([CLASS])
    assert term.leader.why_not_ready() is None


def test_kind_with_a_failing_watch_is_named(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    term.list(EVERYWHERE)
    term.session.failing_kinds.add(RESOURCE)
    assert "gaudiinferences" in str(term.leader.why_not_ready())


def test_installation_of_a_needed_kind_ends_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.exists(gaudi_inference("wide", NAMESPACE, parallelism={"nodes": 2}), seen=False)
    term.run()
    term.list(EVERYWHERE)
    term.memory.always[f"/apis/{LEADER_WORKER_SET.api_version}"] = GROUPS
    term.run(10)
    assert term.ended_for_other_kinds


def test_later_installation_of_classes_ends_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    path = f"/apis/{CLASS.api_version}"
    term.memory.always[path] = OURS
    term.run()
    term.list(WATCHED)
    del term.memory.always[path]
    term.run(10)
    assert term.ended_for_other_kinds


def test_uninstalled_kind_whose_first_list_failed_ends_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.answers = [OURS, GROUPS]
    term.run()
    term.list(EVERYWHERE)
    term.session.failing_kinds.add(LEADER_WORKER_SET)
    term.run(10)
    assert term.ended_for_other_kinds


def test_served_kind_with_a_failing_watch_keeps_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.always[f"/apis/{LEADER_WORKER_SET.api_version}"] = GROUPS
    term.run()
    term.session.failing_kinds.add(LEADER_WORKER_SET)
    term.run(60)
    assert not term.ended_for_other_kinds


def test_watched_kind_is_not_discovered_again(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.answers = [OURS, GROUPS]
    term.run()
    term.memory.requests.clear()
    term.run(60)
    assert not [path for _, path in term.memory.requests if path.startswith("/apis/")]


def test_unneeded_optional_kind_is_not_discovered(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.exists(gaudi_inference("narrow", NAMESPACE), seen=False)
    term.run()
    term.list(EVERYWHERE)
    term.memory.requests.clear()
    term.run(60)
    assert not [path for _, path in term.memory.requests if "leaderworkerset" in path]


def test_end_of_the_watches_ends_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    term.ended.set()
    term.run()
    assert term.task
    assert term.task.result() is False
