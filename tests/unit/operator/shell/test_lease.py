"""Leader election of two replicas with an in-memory Lease: at most one leads, and the other takes over."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from datetime import datetime
from threading import Event
from typing import Any

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.settings import Settings
from gaudi_operator.shell.client import ApiClientResponse, ClusterClient
from gaudi_operator.shell.lease import LeaseElection, LeaseThread
from tests.world.api import Api, Object
from tests.world.api_server import ApiServer
from tests.world.clock import moment
from tests.world.loop import Loop

DURATION, DEADLINE, RETRY = 15, 10, 2
SETTINGS = Settings(
    runtime_image="runtime:1",
    namespace="gaudi-system",
    lease_duration_seconds=DURATION,
    renew_deadline_seconds=DEADLINE,
    retry_period_seconds=RETRY,
)


class Candidate:
    """One replica with its API client, clock and election.

    `skew` is the error of the replica's wall clock in seconds. Requests with a method in `hang` never arrive. Requests
    with a method in `answers_late` arrive, but the response is delayed by that many seconds.
    """

    def __init__(self, loop: Loop, server: ApiServer, name: str, skew: float = 0.0) -> None:
        """Create a replica that does not lead."""
        self.loop, self.server = loop, server
        self.cut_off, self.latency = False, 0.0
        self.hang, self.answers_late = frozenset[str](), dict[str, float]()
        clock = Clock(now=lambda: moment(loop.time() + skew), monotonic=loop.time)
        cluster = ClusterClient(self, lambda *_: None)
        self.election = LeaseElection(cluster, SETTINGS.model_copy(update={"identity": name}), clock)
        cluster.may_write = self.election.leads

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, seconds: float
    ) -> ApiClientResponse:
        """Answer a request after its latency, or time out after `seconds`."""
        if method in self.hang:
            await asyncio.sleep(seconds)
            raise TimeoutError
        await asyncio.sleep(self.latency)
        if self.cut_off:
            raise ConnectionError
        answer = self.server.answer(method, path, body, content_type)
        late = self.answers_late.get(method, 0.0)
        await asyncio.sleep(min(late, seconds))
        if late > seconds:
            raise TimeoutError
        return answer

    def begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task of this replica."""
        return self.loop.create_task(doing)


class Two:
    """Two candidates for one Lease."""

    def __init__(self, skew: float = 0.0) -> None:
        """Create two candidates without a leader. `skew` is the error of the second wall clock in seconds."""
        self.loop, self.api = Loop(), Api()
        server = ApiServer({(SETTINGS.namespace, "Lease"): self.api}, self.loop.time)
        self.first, self.second = Candidate(self.loop, server, "first"), Candidate(self.loop, server, "second", skew)

    @property
    def spec(self) -> Object:
        """The spec of the Lease."""
        [lease] = self.api.kind("Lease")
        return dict(lease["spec"])

    def leading(self) -> list[str]:
        """Return the names of the replicas that act as leader."""
        return [name for name in ("first", "second") if getattr(self, name).election.leads()]

    def when(self, who: list[str], most: float = 60.0, step: float = 0.25) -> float:
        """Return the time when exactly the replicas `who` lead. Raises AssertionError after `most` seconds."""
        end = self.loop.time() + most
        while self.leading() != who:
            assert self.loop.time() < end, f"still {self.leading()}"
            self.loop.run_until(self.loop.time() + step)
        return self.loop.time()

    def leaders_until(self, end: float, step: float = 0.25) -> set[str]:
        """Return the names of all leaders until the time `end`. The empty name stands for a time without a leader."""
        found = set[str]()
        while self.loop.time() < end:
            self.loop.run_until(self.loop.time() + step)
            found.update(self.leading() or [""])
        return found


@pytest.fixture
def two() -> Iterator[Two]:
    """Yield two candidates: the first leads and renews the Lease, and the second tries to acquire the Lease."""
    both = Two()
    yield from _led(both)


def _led(both: Two) -> Iterator[Two]:
    async def live(candidate: Candidate) -> None:
        await candidate.election.acquire()
        await candidate.election.renew_until_lost()

    first = both.first.begin(live(both.first))
    both.when(["first"])
    second = both.second.begin(live(both.second))
    both.loop.run_until(30)
    yield both
    for task in (first, second):
        task.cancel()
    both.loop.run_until(both.loop.time())
    both.loop.close()


def test_renewing_leader_keeps_the_lease(two: Two) -> None:
    assert two.leading() == ["first"]
    assert two.spec["holderIdentity"] == "first"


def test_leader_that_cannot_renew_stops_by_its_deadline(two: Two) -> None:
    two.first.cut_off = True
    assert two.when([]) <= 30 + DEADLINE


def test_follower_takes_over_after_the_leader_has_stopped(two: Two) -> None:
    two.first.cut_off = True
    gone = two.when([])
    taken = two.when(["second"])
    assert gone < taken <= 30 + DURATION + 2 * RETRY


def test_leader_with_hanging_requests_stops_by_its_deadline(two: Two) -> None:
    two.first.hang = frozenset({"GET", "PUT"})
    assert two.when([]) <= 30 + DEADLINE


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_one_hanging_request_does_not_lose_the_lease(two: Two, method: str) -> None:
    two.first.hang = frozenset({method})
    two.loop.run_until(30 + RETRY + 1)
    two.first.hang = frozenset()
    assert two.leaders_until(60) == {"first"}


def test_renewals_within_a_third_of_the_deadline_keep_the_lease(two: Two) -> None:
    two.first.answers_late = {"PUT": DEADLINE / 3 - 0.1}
    assert two.leaders_until(60) == {"first"}


def test_leadership_is_counted_from_before_a_late_renewal(two: Two) -> None:
    two.first.answers_late = {"GET": 3.0, "PUT": 3.0}
    two.loop.run_until(40)
    two.first.cut_off = True
    gone = two.when([])
    renewed = (datetime.fromisoformat(two.spec["renewTime"]) - moment(0)).total_seconds()
    assert gone <= renewed + DEADLINE


def test_takeover_is_counted(two: Two) -> None:
    two.first.cut_off = True
    two.when(["second"])
    assert two.spec["leaseTransitions"] == 1


def test_takeover_sets_acquire_time_and_renewals_keep_it(two: Two) -> None:
    two.first.cut_off = True
    taken = two.when(["second"])
    two.loop.run_until(taken + 3 * RETRY)
    since = (datetime.fromisoformat(two.spec["acquireTime"]) - moment(0)).total_seconds()
    assert taken - 1 <= since <= taken


def test_takeover_keeps_foreign_fields_of_the_lease(two: Two) -> None:
    [lease] = two.api.kind("Lease")
    two.api.put({**lease, "spec": {**lease["spec"], "strategy": "OldestEmulationVersion"}})
    two.first.cut_off = True
    two.when(["second"])
    assert two.spec["strategy"] == "OldestEmulationVersion"


def test_new_lease_has_its_kind_and_namespace(two: Two) -> None:
    [lease] = two.api.kind("Lease")
    assert lease["apiVersion"] == "coordination.k8s.io/v1"
    assert lease["metadata"]["namespace"] == SETTINGS.namespace


def test_lease_taken_by_another_ends_leadership(two: Two) -> None:
    [lease] = two.api.kind("Lease")
    two.api.put({**lease, "spec": {**lease["spec"], "holderIdentity": "third"}})
    assert two.when([]) <= 30 + RETRY


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_clock_skew_between_replicas_is_tolerated(skew: float) -> None:
    for both in _led(Two(skew)):
        assert both.leading() == ["first"]


def test_released_lease_is_acquired_at_the_next_attempt(two: Two) -> None:
    two.loop.run_until_complete(two.first.election.release())
    assert two.leading() == []
    assert two.when(["second"]) <= 30 + RETRY


def test_released_lease_has_no_holder_and_the_shortest_duration(two: Two) -> None:
    two.loop.run_until_complete(two.first.election.release())
    assert two.spec["holderIdentity"] == ""
    assert two.spec["leaseDurationSeconds"] == 1


def test_lease_of_another_holder_is_not_released(two: Two) -> None:
    two.loop.run_until_complete(two.second.election.release())
    assert two.spec["holderIdentity"] == "first"


def test_release_without_an_api_server_is_no_error(two: Two) -> None:
    two.first.cut_off = True
    two.loop.run_until_complete(two.first.election.release())
    assert two.leading() == []


def test_one_of_two_concurrent_creators_of_a_lease_leads() -> None:
    both = Two()
    both.first.latency = both.second.latency = 0.5
    tasks = [each.begin(each.election.acquire()) for each in (both.first, both.second)]
    both.loop.run_until(RETRY + 3)
    assert len(both.leading()) == 1
    assert [task.done() for task in tasks].count(True) == 1
    _end(both, tasks)


def test_one_of_two_concurrent_claimants_of_an_expired_lease_leads() -> None:
    both = Two()
    metadata = {"namespace": SETTINGS.namespace, "name": SETTINGS.lease_name}
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    both.api.put(lease)
    both.first.latency = both.second.latency = 0.5
    tasks = [each.begin(each.election.acquire()) for each in (both.first, both.second)]
    both.loop.run_until(RETRY + 3)
    assert len(both.leading()) == 1
    assert both.spec["leaseTransitions"] == 5
    _end(both, tasks)


def _end(both: Two, tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    both.loop.run_until(both.loop.time())
    both.loop.close()


async def test_renewal_thread_runs_while_the_process_is_busy() -> None:
    async with LeaseThread() as thread:
        passed = Event()

        async def work() -> None:
            passed.set()

        waiting = asyncio.create_task(thread.run(work()))
        await asyncio.sleep(0)
        assert passed.wait(10)  # no other task of this loop runs meanwhile
        await waiting


async def test_cancelled_work_is_cancelled_in_the_thread() -> None:
    async with LeaseThread() as thread:
        began, ended = Event(), Event()

        async def work() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.create_task(thread.run(work()))
        await asyncio.to_thread(began.wait, 10)
        waiting.cancel()
        assert await asyncio.to_thread(ended.wait, 10)
