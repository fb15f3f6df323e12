"""Long-polls for the reports of all running pods, with one task per running container.

If there are more pods than permitted open polls, serving pods are polled at intervals, because gates depend on the
reports of other pods.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Self

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.observed import Manifest, PodReport
from gaudi_operator.retry_delays import Backoff
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.polling.open_polls import OpenPolls
from gaudi_operator.shell.polling.status_port import (
    FetchReport,
    PodUnreachable,
    StatusPort,
    UnusableReport,
    status_port_of,
)
from gaudi_operator.shell.token_bucket import TokenBucket
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.contract.report import Phase, WarmupReport

SHORTEST_ROUND_SECONDS = 0.05
"""The minimum seconds between requests to one pod if the pod answers at once."""

ANSWER_BURST, ANSWERS_PER_SECOND = 600, 4.0
"""The token bucket of answers per pod. The burst lasts half a minute, which covers a warm-up of quick buckets."""

WAKE_BURST, WAKES_PER_SECOND = 10, 1.0
"""The token bucket of reports per pod that trigger a reconcile at once. Other reports wait for the next status."""

_RETRY_FIRST, _RETRY_MOST = 0.2, 10.0


STARTING_WAIT_SECONDS = 10.0
"""The longest poll of a pod that does not serve yet, in seconds.

Its answers report the time without progress, so a stall is noticed with at most this delay.
"""
RENEW_SECONDS = 1.0
"""The timeout of renew(). A pod that does not answer in time keeps its last report."""

REQUEST_INTERVAL_SECONDS = 1.0
"""Seconds between requests to a pod that does not serve yet and has no open poll."""
REQUEST_BURST, REQUESTS_PER_SECOND = 64, 200.0
"""The token bucket of requests to all pods without an open poll. Further requests wait."""


class ReportPoller:
    """The poller. `latest` has the last report of every polled pod by UID. Use as an async context manager."""

    def __init__(
        self,
        wake: Callable[[Key, bool], None],
        metrics: Metrics,
        fetch: FetchReport,
        wait: float,
        clock: Clock = SYSTEM,
        gate_is_open: Callable[[Key, str], bool] = lambda key, uid: True,
        connections: int = 1000,
    ) -> None:
        """Create the poller.

        `wake` is called with the resource of a new report, and with True if the report is urgent. A long-poll lasts
        `wait` seconds. At most `connections` polls are open. `gate_is_open` returns True if the gate of a pod, given by
        resource and UID, is open.
        """
        self._wake = wake
        self._gate_is_open = gate_is_open
        self._metrics = metrics
        self._fetch = fetch
        self._clock = clock
        self._wait = wait
        self._held = OpenPolls(connections)
        self._asks = TokenBucket(REQUEST_BURST, REQUESTS_PER_SECOND, clock)
        self.latest: dict[str, PodReport] = {}
        self._tasks: dict[Key, dict[StatusPort, asyncio.Task[None]]] = defaultdict(dict)

    async def __aenter__(self) -> Self:
        """Return the poller; follow() starts polls."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all polls."""
        for key in list(self._tasks):
            self.set_polled_pods(key, ())

    def count_warming_pods(self) -> int:
        """Return the number of pods that are warming up. Safe to call from another thread."""
        # Copy the values first. A metrics scrape calls this method in a thread, and the event loop may add reports
        # during the scrape.
        latest = list(self.latest.values())
        return sum(last.report is not None and not last.report.phase.is_settled for last in latest)

    def set_polled_pods(self, key: Key, pods: Iterable[Manifest]) -> None:
        """Poll exactly these pods of a resource. A restarted container gets a new poll."""
        present = {pod["metadata"]["uid"] for pod in pods}
        wanted = {target for pod in pods if (target := status_port_of(pod))}
        running = self._tasks[key]
        for target in running.keys() - wanted:
            running.pop(target).cancel()
            # If the pod still exists, its container was restarted. Keep the last report until the new container
            # answers.
            if target.uid not in present:
                self.latest.pop(target.uid, None)
        for target in wanted - running.keys():
            running[target] = asyncio.create_task(self._poll(key, target), name=f"report of pod {target.uid}")
        if not running:
            del self._tasks[key]

    async def renew(self, key: Key) -> None:
        """Request new reports from a resource's pods, because a changed number of requests does not end a long-poll."""
        asked = [asyncio.create_task(self._request_report(target)) for target in self._tasks.get(key, ())]
        if asked:
            _, silent = await asyncio.wait(asked, timeout=RENEW_SECONDS)
            for task in silent:
                task.cancel()

    async def _request_report(self, target: StatusPort) -> None:
        """Request one report without a long-poll. The pod's long-poll also gets the report, and wakes the resource."""
        with contextlib.suppress(PodUnreachable, UnusableReport):
            report = await self._fetch(target, 0, 0.0)
            last = self.latest.get(target.uid)
            # Ignore the report of a new instance. Only the `_poll()` of the new container may accept such a report.
            if last and last.report and last.report.instance == report.instance:
                self.latest[target.uid] = replace(last, received=self._clock.now(), report=report)

    async def _poll(self, key: Key, target: StatusPort) -> None:
        """Poll a container until cancelled. The instance never changes, because a container has only one process."""
        backoff, known = Backoff(_RETRY_FIRST, _RETRY_MOST), None
        answers = TokenBucket(ANSWER_BURST, ANSWERS_PER_SECOND, self._clock)
        turns = TokenBucket(WAKE_BURST, WAKES_PER_SECOND, self._clock)
        while True:
            await answers.wait()
            started = self._clock.monotonic()
            try:
                report, round_seconds = await self._fetch_next(target, known)
                # Reject a report of another instance. The IP address of a pod that has just ended may already belong to
                # another pod.
                if known and report.instance != known.instance:
                    raise UnusableReport("another instance answered; waiting until the pod reports its restart")
                backoff.reset()
                self._accept(key, target, report, known, turns)
                known = report
                await asyncio.sleep(max(0.0, round_seconds - (self._clock.monotonic() - started)))
            except (PodUnreachable, UnusableReport) as error:
                self._record_failure(key, target, error)
                await asyncio.sleep(backoff.next())

    async def _fetch_next(self, target: StatusPort, known: WarmupReport | None) -> tuple[WarmupReport, float]:
        """Return the report after `known`, and the minimum seconds until the next request to this pod."""
        if known is None:
            # Do not use a long poll for the first request. A new leader requests the reports of all pods at the same
            # time, and each pod already has a report.
            return await self._fetch(target, 0, 0.0), SHORTEST_ROUND_SECONDS
        serves = known.phase is Phase.SERVING
        with self._held.try_open(serves) as held:
            if held:
                wait = self._wait if serves else min(self._wait, STARTING_WAIT_SECONDS)
                return await self._fetch(target, known.sequence, wait), SHORTEST_ROUND_SECONDS
        await self._asks.wait()
        return await self._fetch(target, known.sequence, 0.0), self._wait if serves else REQUEST_INTERVAL_SECONDS

    def _accept(
        self, key: Key, target: StatusPort, report: WarmupReport, known: WarmupReport | None, turns: TokenBucket
    ) -> None:
        self.latest[target.uid] = PodReport(target.container_id, self._clock.now(), report=report)
        self._metrics.reports.labels("accepted").inc()
        if known is not None and report.sequence == known.sequence:
            return
        # Wake the worker immediately if the gate must close. Such a wake-up is rare, because a closed gate stays closed
        # for a while.
        closes = report.phase is not Phase.SERVING and self._gate_is_open(key, target.uid)
        # In a settled phase, every report may change the gate. In earlier phases, a report changes only figures in the
        # status.
        self._wake(key, closes or (report.phase.is_settled and turns.take()))

    def _record_failure(self, key: Key, target: StatusPort, error: Exception) -> None:
        """Store why a report is missing. An unreachable pod keeps its last report, which may still be correct."""
        silent = isinstance(error, PodUnreachable)
        self._metrics.reports.labels("unreachable" if silent else "unusable").inc()
        last = self.latest.get(target.uid)
        ours = last if last and last.container_id == target.container_id else None
        if ours and (ours.ignored == str(error) or (silent and ours.report)):
            return
        self.latest[target.uid] = PodReport(target.container_id, self._clock.now(), ignored=str(error))
        self._wake(key, False)
