"""Polling of pods: which reports trigger a reconcile, how often pods are polled, and which report is kept."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import ObservedReport
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.reports import (
    ANSWERS_PER_SECOND,
    REQUEST_INTERVAL_SECONDS,
    STARTING_WAIT_SECONDS,
    ReportPoller,
)
from gaudi_operator.shell.polling.status_port import StatusPort, StatusPortReportUnusable, StatusPortUnreachable
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.unit.operator.shell.concurrency import INITIAL, count_during_changes
from tests.unit.operator.shell.memory import KEY
from tests.world.api import Object
from tests.world.clock import moment
from tests.world.loop import Loop

WAIT = 30.0


class Pods:
    """Polled pods. `answers` has the reports by container ID, and `woken` has (second, urgent) for each wake-up."""

    def __init__(self) -> None:
        """Create a poller without pods."""
        self.loop, self.woken = Loop(), list[tuple[float, bool]]()
        self.answers: dict[str, WarmupReport | Exception] = {}
        self.polls: list[float] = []
        clock = Clock(now=lambda: moment(self.loop.time()), monotonic=self.loop.time)
        self.reports = ReportPoller(
            lambda _, urgent: self.woken.append((self.loop.time(), urgent)),
            MonitoringMetrics(),
            self.fetch,
            WAIT,
            clock,
            gate_is_open=lambda *_: False,
        )

    async def fetch(self, target: StatusPort, after: int, wait: float) -> WarmupReport:
        """Answer a long-poll, and check for changes four times a second."""
        self.polls.append(self.loop.time())
        until = self.loop.time() + wait
        while True:
            answer = self.answers[target.container_id]
            if isinstance(answer, Exception):
                raise answer
            if answer.sequence != after or self.loop.time() >= until:
                return answer
            await asyncio.sleep(0.25)

    def follow(self, *pods: Object) -> None:
        """Poll these pods and no other pods."""

        async def follow() -> None:
            self.reports.set_polled_pods(KEY, pods)

        self.loop.run_until_complete(follow())

    def pass_time(self, seconds: float) -> None:
        """Advance the clock while polls continue."""
        self.loop.run_until(self.loop.time() + seconds)


@pytest.fixture
def pods() -> Iterator[Pods]:
    made = Pods()
    yield made
    made.follow()
    made.loop.run_until(made.loop.time())
    made.loop.close()


def pod(container: str = "c1", uid: str = "u") -> Object:
    status = {"name": CONTAINER, "containerID": container, "state": {"running": {}}}
    return {"metadata": {"uid": uid}, "status": {"podIP": "10.0.0.1", "containerStatuses": [status]}}


def report(sequence: int = 1, phase: Phase = Phase.COMPILING, instance: str = "i1", **fields: Any) -> WarmupReport:
    return WarmupReport(instance=instance, sequence=sequence, plan_hash="0" * 64, phase=phase, **fields)


@pytest.mark.parametrize(("phase", "urgent"), [(Phase.COMPILING, False), (Phase.SERVING, True)])
def test_first_report_starts_a_reconcile(pods: Pods, phase: Phase, urgent: bool) -> None:
    pods.answers["c1"] = report(phase=phase)
    pods.follow(pod())
    pods.pass_time(1)
    assert pods.reports.latest_reports["u"].report == report(phase=phase)
    assert pods.woken == [(0.0, urgent)]


def test_progress_is_not_urgent(pods: Pods) -> None:
    pods.answers["c1"] = report(1)
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = report(2)
    pods.pass_time(1)
    assert [urgent for _, urgent in pods.woken] == [False, False]


@pytest.mark.parametrize(("phase", "urgent"), [(Phase.CAPTURING, False), (Phase.SERVING, True), (Phase.FAILED, True)])
def test_phase_that_affects_the_gate_is_urgent(pods: Pods, phase: Phase, urgent: bool) -> None:
    pods.answers["c1"] = report(1)
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = report(2, phase)
    pods.pass_time(1)
    assert [urgent for _, urgent in pods.woken] == [False, urgent]


def test_every_report_of_a_serving_pod_is_urgent(pods: Pods) -> None:
    pods.answers["c1"] = report(1, Phase.SERVING)
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = report(2, Phase.SERVING, recent_recompiles=50)
    pods.pass_time(1)
    assert [urgent for _, urgent in pods.woken] == [True, True]


def test_unchanged_report_is_refreshed_without_a_reconcile(pods: Pods) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(2 * WAIT + 1)
    assert len(pods.woken) == 1
    assert pods.reports.latest_reports["u"].received_at > moment(WAIT)


def test_unreachable_pod_keeps_its_last_report(pods: Pods) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = StatusPortUnreachable("no answer")
    pods.pass_time(60)
    assert pods.reports.latest_reports["u"].report == report()
    assert len(pods.woken) == 1


def test_unreachable_pod_has_a_reason(pods: Pods) -> None:
    pods.answers["c1"] = StatusPortUnreachable("no answer")
    pods.follow(pod())
    pods.pass_time(60)
    assert pods.reports.latest_reports["u"].ignored_reason == "no answer"
    assert len(pods.woken) == 1


def test_unusable_answer_replaces_the_report(pods: Pods) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = StatusPortReportUnusable("too large")
    pods.pass_time(1)
    assert pods.reports.latest_reports["u"].report is None
    assert pods.reports.latest_reports["u"].ignored_reason == "too large"


def test_report_of_another_instance_is_ignored(pods: Pods) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = report(9, Phase.SERVING, instance="i2")
    pods.pass_time(1)
    assert pods.reports.latest_reports["u"].report is None


def test_report_of_a_restarted_container_replaces_the_old_one(pods: Pods) -> None:
    pods.answers |= {"c1": report(), "c2": report(instance="i2")}
    pods.follow(pod("c1"))
    pods.pass_time(1)
    pods.follow(pod("c2"))
    pods.pass_time(1)
    assert pods.reports.latest_reports["u"] == pods.reports.latest_reports["u"].__class__(
        "c2", moment(1), report(instance="i2")
    )


def test_last_report_is_kept_during_a_restart(pods: Pods) -> None:
    pods.answers |= {"c1": report(), "c2": StatusPortUnreachable("not yet")}
    pods.follow(pod("c1"))
    pods.pass_time(1)
    pods.follow({**pod("c2"), "status": {}})
    pods.pass_time(1)
    assert pods.reports.latest_reports["u"].container_id == "c1"


def test_deleted_pod_is_no_longer_polled_and_is_forgotten(pods: Pods) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(1)
    pods.follow()
    polls = len(pods.polls)
    pods.pass_time(60)
    assert len(pods.polls) == polls
    assert not pods.reports.latest_reports


@pytest.mark.parametrize("change", [{"deletionTimestamp": "2026-08-01T12:00:00Z"}, {}], ids=["terminating", "crashed"])
def test_deleted_pod_without_a_poll_is_forgotten(pods: Pods, change: dict[str, str]) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(1)
    pods.follow({"metadata": {"uid": "u", **change}, "status": {}})
    assert pods.reports.latest_reports["u"].report == report()
    pods.follow()
    assert not pods.reports.latest_reports
    assert pods.reports.count_warming_pods() == 0


def test_pod_answering_immediately_is_polled_twenty_times_a_second(pods: Pods) -> None:
    numbers = iter(range(1, 10_000))

    async def answer_immediately(*_: object) -> WarmupReport:
        pods.polls.append(pods.loop.time())
        return report(next(numbers))

    pods.reports = ReportPoller(
        lambda *_: None, MonitoringMetrics(), answer_immediately, WAIT, Clock(monotonic=pods.loop.time)
    )
    pods.follow(pod())
    pods.pass_time(1)
    assert len(pods.polls) <= 21


def test_pod_answering_immediately_is_rate_limited(pods: Pods) -> None:
    numbers = itertools.count(1)

    async def answer_immediately(*_: object) -> WarmupReport:
        pods.polls.append(pods.loop.time())
        return report(next(numbers))

    pods.reports = ReportPoller(
        lambda *_: None, MonitoringMetrics(), answer_immediately, WAIT, Clock(monotonic=pods.loop.time)
    )
    pods.follow(pod())
    pods.pass_time(600)
    assert sum(at > 540 for at in pods.polls) <= 60 * ANSWERS_PER_SECOND + 1


def urgency_of_alternating_reports(pods: Pods, gate_is_open: bool, phases: tuple[Phase, Phase]) -> list[bool]:
    """Return the urgency of the wake-ups in the last 10 of 40 seconds. The report alternates between two phases."""
    numbers = itertools.count(1)

    async def alternate(*_: object) -> WarmupReport:
        number = next(numbers)
        return report(number, phases[number % 2])

    pods.reports = ReportPoller(
        lambda _, urgent: pods.woken.append((pods.loop.time(), urgent)),
        MonitoringMetrics(),
        alternate,
        WAIT,
        Clock(now=lambda: moment(pods.loop.time()), monotonic=pods.loop.time),
        lambda *_: gate_is_open,
    )
    pods.follow(pod())
    pods.pass_time(40)
    return [urgent for at, urgent in pods.woken if at >= 30]


def test_alternating_report_is_urgent_once_a_second(pods: Pods) -> None:
    assert sum(urgency_of_alternating_reports(pods, False, (Phase.SERVING, Phase.FAILED))) <= 11


def test_report_that_closes_an_open_gate_is_always_urgent(pods: Pods) -> None:
    assert all(urgency_of_alternating_reports(pods, True, (Phase.DRAINING, Phase.FAILED)))


def follow_many(pods: Pods, connections: int, **phases: Phase) -> None:
    """Poll one pod for each phase. The keyword of the argument is the name of the pod's container."""
    clock = Clock(now=lambda: moment(pods.loop.time()), monotonic=pods.loop.time)
    pods.reports = ReportPoller(lambda *_: None, MonitoringMetrics(), pods.fetch, WAIT, clock, max_polls=connections)
    pods.answers = {name: report(phase=phase) for name, phase in phases.items()}
    pods.follow(*(pod(name, uid=name) for name in phases))
    pods.pass_time(2 * WAIT)


def seconds_until_received(pods: Pods, name: str) -> float:
    """Return the seconds until a changed report of a pod is received."""
    pods.answers[name], began = report(2, Phase.FAILED), pods.loop.time()
    while (pods.reports.latest_reports[name].report or report()).sequence != 2:
        pods.pass_time(0.25)
    return pods.loop.time() - began


def test_warming_pods_beyond_the_connections_are_polled_within_seconds(pods: Pods) -> None:
    names = [f"c{number}" for number in range(6)]
    follow_many(pods, 2, **dict.fromkeys(names, Phase.COMPILING))
    assert max(seconds_until_received(pods, name) for name in names) <= REQUEST_INTERVAL_SECONDS + 0.5


def test_serving_pods_do_not_delay_a_warming_pod(pods: Pods) -> None:
    follow_many(pods, 4, a=Phase.SERVING, b=Phase.SERVING, c=Phase.SERVING, d=Phase.SERVING, warms=Phase.COMPILING)
    assert seconds_until_received(pods, "warms") <= 0.5


def test_serving_pod_beyond_the_connections_is_polled_within_one_poll(pods: Pods) -> None:
    names = [f"c{number}" for number in range(6)]
    follow_many(pods, 2, **dict.fromkeys(names, Phase.SERVING))
    assert max(seconds_until_received(pods, name) for name in names) <= WAIT + 1


def test_unreachable_pod_is_polled_with_increasing_delays(pods: Pods) -> None:
    pods.answers["c1"] = StatusPortUnreachable("no answer")
    pods.follow(pod())
    pods.pass_time(300)
    assert pods.polls[-1] - pods.polls[-2] >= 5


@pytest.mark.parametrize(("phase", "seconds"), [(Phase.COMPILING, STARTING_WAIT_SECONDS), (Phase.SERVING, WAIT)])
def test_starting_pod_is_polled_with_a_shorter_wait(pods: Pods, phase: Phase, seconds: float) -> None:
    pods.answers["c1"] = report(phase=phase)
    pods.follow(pod())
    pods.pass_time(100)
    assert pods.polls[-1] - pods.polls[-2] == pytest.approx(seconds)


def test_renewal_reads_the_current_report(pods: Pods) -> None:
    pods.answers["c1"] = report(since_progress_seconds=1)
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = report(since_progress_seconds=900)
    pods.loop.run_until_complete(pods.reports.renew(KEY))
    last = pods.reports.latest_reports["u"].report
    assert last
    assert last.since_progress_seconds == 900


def test_renewal_ignores_another_instance(pods: Pods) -> None:
    pods.answers["c1"] = report()
    pods.follow(pod())
    pods.pass_time(1)
    pods.answers["c1"] = report(instance="i2")
    pods.loop.run_until_complete(pods.reports.renew(KEY))
    assert pods.reports.latest_reports["u"].report == report()


def test_warming_pods_are_counted(pods: Pods) -> None:
    pods.answers |= {"c1": report(), "c2": report(phase=Phase.SERVING)}
    pods.follow(pod("c1", "u1"), pod("c2", "u2"))
    pods.pass_time(1)
    assert pods.reports.count_warming_pods() == 1


def test_warming_pods_are_counted_while_reports_arrive(pods: Pods) -> None:
    def receive(number: int) -> None:
        pods.reports.latest_reports[str(number)] = ObservedReport("c", moment(0), report())

    assert count_during_changes(pods.reports.count_warming_pods, receive) >= INITIAL
