"""A leader waits for its definition, says what it waits for, and begins a new term for kinds that come later."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterator

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import ApiResponse
from gaudi_operator.shell.kinds import CLASS, LEADER_WORKER_SET, RESOURCE, STATEFUL_SET, WATCHED, Kind
from gaudi_operator.shell.lead import Leader, LeaderDependencies
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.polling.status_port import StatusPort
from gaudi_operator.shell.watching.list_watch import Seen
from gaudi_operator.shell.watching.watches import WatchSession
from gaudi_runtime.contract.report import WarmupReport
from tests.support.builders import gaudi_inference
from tests.unit.operator.shell.memory import NAMESPACE, Memory
from tests.world.clock import moment
from tests.world.loop import Loop

NOT_FOUND = ApiResponse(404, b"{}")
OURS, GROUPS = (
    ApiResponse(200, json.dumps({"resources": [{"name": kind.plural}]}).encode())
    for kind in (RESOURCE, LEADER_WORKER_SET)
)
EVERYWHERE = (*WATCHED, CLASS)
"""What a cluster has where the chart was installed."""


class Term:
    """A term of leadership, whose watches the test plays. `watched` are the kinds that it asked for."""

    def __init__(self, *namespaces: str) -> None:
        """Nothing runs yet."""
        self.loop, self.memory = Loop(), Memory()
        self.watched: Collection[Kind] = ()
        self.ended = asyncio.Event()
        clock = Clock(now=lambda: moment(self.loop.time()), monotonic=self.loop.time)
        settings = Settings(runtime_image="runtime:1", watch_namespaces=namespaces)
        around = LeaderDependencies(self.memory.cluster, self._watch, self._fetch, clock)
        self.leader = Leader(settings, around, Metrics())
        self.task: asyncio.Task[bool] | None = None

    async def _watch(self, session: WatchSession, kinds: Collection[Kind], seen: Seen, gone: Seen) -> None:
        self.watched, self.session = kinds, session
        await self.ended.wait()

    async def _fetch(self, _: StatusPort, after: int, wait: float) -> WarmupReport:
        raise NotImplementedError

    def run(self, seconds: float = 0.0) -> None:
        """Lead for so long."""
        self.task = self.task or self.loop.create_task(self.leader.run())
        self.loop.run_until(self.loop.time() + seconds)

    def list(self, kinds: Collection[Kind], namespace: str | None = None) -> None:
        """The first lists of these kinds come in."""

        async def come() -> None:
            for kind in kinds:
                for each in (listed := self.memory.api.kind(kind.kind)):
                    self.session.seen(each)
                self.session.listed(kind, namespace, [each["metadata"]["uid"] for each in listed], 99)

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


def test_definition_that_comes_late_is_waited_for(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.answers = [NOT_FOUND, NOT_FOUND]
    term.run()
    assert not term.watched
    term.run(10)
    assert RESOURCE in term.watched


def test_optional_kind_is_watched_where_it_is_served(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.answers = [OURS, GROUPS]
    term.run()
    assert set(term.watched) == {*EVERYWHERE, LEADER_WORKER_SET, STATEFUL_SET}


def test_optional_kind_that_is_not_served_is_not_watched(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    assert set(term.watched) == set(EVERYWHERE)


@pytest.mark.parametrize("silence", [ApiResponse(503, b"{}"), ConnectionError()])
def test_silence_is_no_proof_that_a_kind_is_missing(
    new_term: Callable[..., Term], silence: ApiResponse | ConnectionError
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


def test_every_namespace_is_listed_for_itself(new_term: Callable[..., Term]) -> None:
    term = new_term("blue", "green")
    term.run()
    term.list(WATCHED, "blue")
    assert term.leader.why_not_ready()
    term.list(WATCHED, "green")
    assert term.leader.why_not_ready() == "waits for the first list of gaudiinferenceclasses"
    term.list([CLASS])
    assert term.leader.why_not_ready() is None


def test_kind_that_cannot_be_watched_is_named(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    term.list(EVERYWHERE)
    term.session.failing.add(RESOURCE)
    assert "gaudiinferences" in str(term.leader.why_not_ready())


def test_kind_that_is_installed_and_wanted_ends_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.exists(gaudi_inference("wide", NAMESPACE, parallelism={"nodes": 2}), seen=False)
    term.run()
    term.list(EVERYWHERE)
    term.memory.always[f"/apis/{LEADER_WORKER_SET.api_version}"] = GROUPS
    term.run(10)
    assert term.task
    assert term.task.done()
    assert term.task.result() is True


def test_classes_that_are_installed_later_end_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    path = f"/apis/{CLASS.api_version}"
    term.memory.always[path] = OURS
    term.run()
    term.list(WATCHED)
    del term.memory.always[path]
    term.run(10)
    assert term.task
    assert term.task.done()
    assert term.task.result() is True


def test_optional_kind_that_nobody_wants_is_not_asked_for(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.memory.exists(gaudi_inference("narrow", NAMESPACE), seen=False)
    term.run()
    term.list(EVERYWHERE)
    term.memory.asked.clear()
    term.run(60)
    assert not [path for _, path in term.memory.asked if "leaderworkerset" in path]


def test_end_of_the_watches_ends_the_term(new_term: Callable[..., Term]) -> None:
    term = new_term()
    term.run()
    term.ended.set()
    term.run()
    assert term.task
    assert term.task.result() is False
