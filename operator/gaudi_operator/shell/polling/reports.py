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
from gaudi_operator.core.observed import Manifest, ObservedReport
from gaudi_operator.retry_delays import ExponentialRetryDelays
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.open_polls import OpenPolls
from gaudi_operator.shell.polling.status_port import (
    FetchFromStatusPort,
    StatusPort,
    StatusPortReportUnusable,
    StatusPortUnreachable,
    status_port_of,
)
from gaudi_operator.shell.token_bucket import TokenBucket
from gaudi_operator.shell.watching.store import StoreKey
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
    """The poller. `latest_reports` has the last report of every polled pod by UID. Use as an async context manager."""

    def __init__(
        self,
        wake: Callable[[StoreKey, bool], None],
        metrics: MonitoringMetrics,
        fetch: FetchFromStatusPort,
        wait: float,
        clock: Clock = SYSTEM,
        gate_is_open: Callable[[StoreKey, str], bool] = lambda key, uid: True,
        max_polls: int = 1000,
    ) -> None:
        """Create the poller.

        `wake` is called with the resource of a new report, and with True if the report is urgent. A long-poll lasts
        `wait` seconds. At most `max_polls` polls are open. `gate_is_open` returns True if the gate of a pod, given by
        resource and UID, is open.
        """
        self._wake = wake
        self._gate_is_open = gate_is_open
        self._metrics = metrics
        self._fetch = fetch
        self._clock = clock
        self._wait = wait
        self._open_polls = OpenPolls(max_polls)
        self._request_tokens = TokenBucket(REQUEST_BURST, REQUESTS_PER_SECOND, clock)
        self.latest_reports: dict[str, ObservedReport] = {}
        self._tasks: dict[StoreKey, dict[StatusPort, asyncio.Task[None]]] = defaultdict(dict)
        self._uids: dict[StoreKey, set[str]] = {}

    async def __aenter__(self) -> Self:
        """Return the poller; set_polled_pods() starts polls."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all polls."""
        for key in list(self._tasks):
            self.set_polled_pods(key, ())

    def count_warming_pods(self) -> int:
        """Return the number of pods that are warming up. Safe to call from another thread."""
        # Copy the values first. A metrics scrape calls this method in a thread, and the event loop may add reports
        # during the scrape.
        reports = list(self.latest_reports.values())
        return sum(pod_report.report is not None and not pod_report.report.phase.is_settled for pod_report in reports)

    def set_polled_pods(self, key: StoreKey, pods: Iterable[Manifest]) -> None:
        """Poll exactly these pods of a resource. A restarted container gets a new poll.

        The last report of a pod is kept until the pod is deleted, because its container may have restarted or ended.
        """
        uids = {pod["metadata"]["uid"] for pod in pods}
        targets = {target for pod in pods if (target := status_port_of(pod))}
        tasks = self._tasks[key]
        for target in tasks.keys() - targets:
            tasks.pop(target).cancel()
        for uid in self._uids.pop(key, set()) - uids:
            self.latest_reports.pop(uid, None)
        if uids:
            self._uids[key] = uids
        for target in targets - tasks.keys():
            tasks[target] = asyncio.create_task(self._poll(key, target), name=f"report of pod {target.uid}")
        if not tasks:
            del self._tasks[key]

    async def renew(self, key: StoreKey) -> None:
        """Request new reports from a resource's pods, because a changed number of requests does not end a long-poll."""
        requests = [asyncio.create_task(self._request_report(target)) for target in self._tasks.get(key, ())]
        if requests:
            _, pending_requests = await asyncio.wait(requests, timeout=RENEW_SECONDS)
            for task in pending_requests:
                task.cancel()

    async def _request_report(self, target: StatusPort) -> None:
        """Request one report without a long-poll. The pod's long-poll also gets the report, and wakes the resource."""
        with contextlib.suppress(StatusPortUnreachable, StatusPortReportUnusable):
            report = await self._fetch(target, 0, 0.0)
            pod_report = self.latest_reports.get(target.uid)
            # Ignore the report of a new instance. Only the `_poll()` of the new container may accept such a report.
            if pod_report and pod_report.report and pod_report.report.instance == report.instance:
                self.latest_reports[target.uid] = replace(pod_report, received_at=self._clock.now(), report=report)

    async def _poll(self, key: StoreKey, target: StatusPort) -> None:
        """Poll a container until cancelled. The instance never changes, because a container has only one process."""
        backoff, last_report = ExponentialRetryDelays(_RETRY_FIRST, _RETRY_MOST), None
        answer_tokens = TokenBucket(ANSWER_BURST, ANSWERS_PER_SECOND, self._clock)
        wake_tokens = TokenBucket(WAKE_BURST, WAKES_PER_SECOND, self._clock)
        while True:
            await answer_tokens.wait()
            started_at = self._clock.monotonic()
            try:
                report, round_seconds = await self._fetch_next(target, last_report)
                # Reject a report of another instance. The IP address of a pod that has just ended may already belong to
                # another pod.
                if last_report and report.instance != last_report.instance:
                    raise StatusPortReportUnusable(
                        "another instance answered; waiting until the pod reports its restart"
                    )
                backoff.reset()
                self._accept(key, target, report, last_report, wake_tokens)
                last_report = report
                await asyncio.sleep(max(0.0, round_seconds - (self._clock.monotonic() - started_at)))
            except (StatusPortUnreachable, StatusPortReportUnusable) as error:
                self._record_failure(key, target, error)
                await asyncio.sleep(backoff.next())

    async def _fetch_next(self, target: StatusPort, last_report: WarmupReport | None) -> tuple[WarmupReport, float]:
        """Return the report after `last_report`, and the minimum seconds until the next request to this pod."""
        if last_report is None:
            # Do not use a long poll for the first request. A new leader requests the reports of all pods at the same
            # time, and each pod already has a report.
            return await self._fetch(target, 0, 0.0), SHORTEST_ROUND_SECONDS
        serves = last_report.phase is Phase.SERVING
        with self._open_polls.try_open(serves) as granted:
            if granted:
                wait_seconds = self._wait if serves else min(self._wait, STARTING_WAIT_SECONDS)
                return await self._fetch(target, last_report.sequence, wait_seconds), SHORTEST_ROUND_SECONDS
        await self._request_tokens.wait()
        return await self._fetch(target, last_report.sequence, 0.0), self._wait if serves else REQUEST_INTERVAL_SECONDS

    def _accept(
        self,
        key: StoreKey,
        target: StatusPort,
        report: WarmupReport,
        last_report: WarmupReport | None,
        wakes: TokenBucket,
    ) -> None:
        self.latest_reports[target.uid] = ObservedReport(target.container_id, self._clock.now(), report=report)
        self._metrics.reports.labels("accepted").inc()
        if last_report is not None and report.sequence == last_report.sequence:
            return
        # Wake the worker immediately if the gate must close. Such a wake-up is rare, because a closed gate stays closed
        # for a while.
        closes = report.phase is not Phase.SERVING and self._gate_is_open(key, target.uid)
        # In a settled phase, every report may change the gate. In earlier phases, a report changes only figures in the
        # status.
        self._wake(key, closes or (report.phase.is_settled and wakes.take()))

    def _record_failure(self, key: StoreKey, target: StatusPort, error: Exception) -> None:
        """Store why a report is missing. An unreachable pod keeps its last report, which may still be correct."""
        unreachable = isinstance(error, StatusPortUnreachable)
        self._metrics.reports.labels("unreachable" if unreachable else "unusable").inc()
        pod_report = self.latest_reports.get(target.uid)
        previous = pod_report if pod_report and pod_report.container_id == target.container_id else None
        if previous and (previous.ignored_reason == str(error) or (unreachable and previous.report)):
            return
        self.latest_reports[target.uid] = ObservedReport(
            target.container_id, self._clock.now(), ignored_reason=str(error)
        )
        self._wake(key, False)
