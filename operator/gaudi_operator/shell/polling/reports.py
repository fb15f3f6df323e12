"""Follows the report of every running pod by long-poll: one task per container, none for the rest.

Of more pods than polls may be held open, those that serve are asked from time to time: gates wait for the others.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Self

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.observed import Manifest, PodReport
from gaudi_operator.errors import Backoff
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.polling.open_polls import OpenPolls
from gaudi_operator.shell.polling.status_port import Fetch, Target, Unreachable, Unusable, target_of
from gaudi_operator.shell.token_bucket import TokenBucket
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.contract.report import Phase, WarmupReport

SHORTEST_ROUND_SECONDS = 0.05
"""A pod that answers without waiting is asked at most twenty times a second."""

ANSWERS, ANSWERS_PER_SECOND = 600, 4.0
"""And so for half a minute, which is long for a warm-up of quick buckets; from then on at this rate."""

TURNS, TURNS_PER_SECOND = 10, 1.0
"""Reports of one pod that lead to a reconcile at once, in a burst and per second. Others wait for the status."""

_RETRY_FIRST, _RETRY_MOST = 0.2, 10.0


STARTING_WAIT_SECONDS = 10.0
"""The longest poll of a pod that does not serve yet: each answer says for how long nothing has moved, so a warm-up that
stands still is noticed at most so much later.
"""
RENEW_SECONDS = 1.0
"""A pod that has not answered by then keeps the report that it has."""

ASK_SECONDS = 1.0
"""Between two questions to a pod that does not serve yet, and whose poll may not be held."""
ASKS, ASKS_PER_SECOND = 64, 200.0
"""Questions to all pods whose polls are not held, at once and per second; further ones wait."""


class Reports:
    """The last report of every followed pod, `latest` by its UID. Use as an async context manager."""

    def __init__(
        self,
        wake: Callable[[Key, bool], None],
        metrics: Metrics,
        fetch: Fetch,
        wait: float,
        clock: Clock = SYSTEM,
        gate_is_open: Callable[[Key, str], bool] = lambda key, uid: True,
        connections: int = 1000,
    ) -> None:
        """`wake` is called with the resource that has news and whether they are urgent; `wait` seconds a long-poll,
        at most `connections` of them at a time. `gate_is_open` tells it of a pod by its UID.
        """
        self._wake = wake
        self._gate_is_open = gate_is_open
        self._metrics = metrics
        self._fetch = fetch
        self._clock = clock
        self._wait = wait
        self._held = OpenPolls(connections)
        self._asks = TokenBucket(ASKS, ASKS_PER_SECOND, clock)
        self.latest: dict[str, PodReport] = {}
        self._tasks: dict[Key, dict[Target, asyncio.Task[None]]] = defaultdict(dict)

    async def __aenter__(self) -> Self:
        """No pod is polled yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all polls."""
        for key in list(self._tasks):
            self.follow(key, ())

    def warming(self) -> int:
        """How many pods are on their way to serving, as their last report says. May be called in another thread."""
        # Listed in one step: while a scrape counts, the loop receives other reports.
        latest = list(self.latest.values())
        return sum(last.report is not None and not last.report.phase.is_settled for last in latest)

    def follow(self, key: Key, pods: Iterable[Manifest]) -> None:
        """Follow exactly these pods of a resource; a restarted container is followed again."""
        present = {pod["metadata"]["uid"] for pod in pods}
        wanted = {target for pod in pods if (target := target_of(pod))}
        running = self._tasks[key]
        for target in running.keys() - wanted:
            running.pop(target).cancel()
            # A container that restarts keeps its last report until the next one answers.
            if target.uid not in present:
                self.latest.pop(target.uid, None)
        for target in wanted - running.keys():
            running[target] = asyncio.create_task(self._poll(key, target), name=f"report of pod {target.uid}")
        if not running:
            del self._tasks[key]

    async def renew(self, key: Key) -> None:
        """Ask all followed pods of a resource for fresh reports: how many requests a pod has is no news by itself."""
        asked = [asyncio.create_task(self._ask(target)) for target in self._tasks.get(key, ())]
        if asked:
            _, silent = await asyncio.wait(asked, timeout=RENEW_SECONDS)
            for task in silent:
                task.cancel()

    async def _ask(self, target: Target) -> None:
        """Take one answer without waiting; the poll has the same news, and wakes the resource."""
        with contextlib.suppress(Unreachable, Unusable):
            report = await self._fetch(target, 0, 0.0)
            last = self.latest.get(target.uid)
            # A restart is for the poll to accept, which knows whose container it asks.
            if last and last.report and last.report.instance == report.instance:
                self.latest[target.uid] = replace(last, received=self._clock.now(), report=report)

    async def _poll(self, key: Key, target: Target) -> None:
        """Ask again and again until cancelled. A container is one process: its instance never changes."""
        backoff, known = Backoff(_RETRY_FIRST, _RETRY_MOST), None
        answers = TokenBucket(ANSWERS, ANSWERS_PER_SECOND, self._clock)
        turns = TokenBucket(TURNS, TURNS_PER_SECOND, self._clock)
        while True:
            await answers.wait()
            started = self._clock.monotonic()
            try:
                report, round_seconds = await self._next(target, known)
                # The address of a pod that has just ended may be that of another one already.
                if known and report.instance != known.instance:
                    raise Unusable("another instance answers than before; waiting for the pod to show its restart")
                backoff.reset()
                self._accept(key, target, report, known, turns)
                known = report
                await asyncio.sleep(max(0.0, round_seconds - (self._clock.monotonic() - started)))
            except (Unreachable, Unusable) as error:
                self._ignore(key, target, error)
                await asyncio.sleep(backoff.next())

    async def _next(self, target: Target, known: WarmupReport | None) -> tuple[WarmupReport, float]:
        """The report after `known`, and how long it takes at least until this pod is asked again."""
        if known is None:
            # A new leader asks all pods for the first time together, and each has something to say: none is held.
            return await self._fetch(target, 0, 0.0), SHORTEST_ROUND_SECONDS
        serves = known.phase is Phase.SERVING
        with self._held.hold(serves) as held:
            if held:
                wait = self._wait if serves else min(self._wait, STARTING_WAIT_SECONDS)
                return await self._fetch(target, known.sequence, wait), SHORTEST_ROUND_SECONDS
        await self._asks.wait()
        return await self._fetch(target, known.sequence, 0.0), self._wait if serves else ASK_SECONDS

    def _accept(
        self, key: Key, target: Target, report: WarmupReport, known: WarmupReport | None, turns: TokenBucket
    ) -> None:
        self.latest[target.uid] = PodReport(target.container_id, self._clock.now(), report=report)
        self._metrics.reports.labels("accepted").inc()
        if known is not None and report.sequence == known.sequence:
            return
        # Closing is not delayed, and done once: a gate that has closed stays so for a moment.
        closes = report.phase is not Phase.SERVING and self._gate_is_open(key, target.uid)
        # Every report of a settled phase may decide about a gate; before that, figures only move.
        self._wake(key, closes or (report.phase.is_settled and turns.take()))

    def _ignore(self, key: Key, target: Target, error: Exception) -> None:
        """Keep the reason; a pod that is merely silent keeps its last report, for silence proves nothing."""
        silent = isinstance(error, Unreachable)
        self._metrics.reports.labels("unreachable" if silent else "unusable").inc()
        last = self.latest.get(target.uid)
        ours = last if last and last.container_id == target.container_id else None
        if ours and (ours.ignored == str(error) or (silent and ours.report)):
            return
        self.latest[target.uid] = PodReport(target.container_id, self._clock.now(), ignored=str(error))
        self._wake(key, False)
