"""Follows the report of every running pod by long-poll: one task per container, none for the rest.

StatusPorts asks a pod's status port once, `GET /v1/warmup`, and distrusts whatever answers; Reports asks for ever. Of
more pods than polls may be held open, those that serve are asked now and then: what a gate waits for comes first.
"""

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp
from pydantic import ValidationError

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest, PodReport, decisive
from gaudi_operator.errors import Backoff
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.token_bucket import TokenBucket
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.contract.ports import STATUS_PORT_NAME, WARMUP_PATH
from gaudi_runtime.contract.report import MAX_REPORT_BYTES, Phase, WarmupReport

CONNECT_SECONDS = 5.0
READ_SECONDS = 5.0
_CHUNK = 65_536


class Unreachable(Exception):
    """Nobody answered in time. It says nothing about the pod's graphs."""


class Unusable(Exception):
    """Something answered, and it is not a report of this container."""


@dataclass(frozen=True)
class Target:
    """A running container and where its status port is."""

    uid: str
    container_id: str
    address: str
    port: int

    @property
    def url(self) -> str:
        """URL of the report."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}{WARMUP_PATH}"


def target_of(pod: Manifest) -> Target | None:
    """Where to ask about a pod; None while its runtime container does not run, or when the pod is going."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    container: Mapping[str, Any] = next(
        (each for each in status.get("containerStatuses") or () if each["name"] == CONTAINER), {}
    )
    running = "running" in (container.get("state") or {})
    if not (running and container.get("containerID") and status.get("podIP")) or "deletionTimestamp" in metadata:
        return None
    return Target(
        uid=metadata["uid"],
        container_id=container["containerID"],
        address=status["podIP"],
        port=_status_port(pod.get("spec") or {}),
    )


class Fetch(Protocol):
    """Asks a container for its report."""

    async def __call__(self, target: Target, after: int, wait: float) -> WarmupReport:
        """What decides of the report, once its sequence is above `after` or after `wait` seconds.

        Raises Unreachable, or Unusable with the reason why the answer is ignored.
        """


ASKED_AT_ONCE = 64
"""Pods that are asked for what they say at this moment."""

IDLE_SECONDS = 0.5
"""After which an unused connection is closed: polls follow one another at once, others do not come back soon, and each
connection takes 14 KB.
"""


class StatusPorts:
    """The status ports of pods, by HTTP. Use as an async context manager."""

    def __init__(self) -> None:
        """Nobody is asked yet."""
        self._asked = asyncio.Semaphore(ASKED_AT_ONCE)

    async def __aenter__(self) -> Self:
        """Open the session: no cookies, no proxies, no decompression of what a pod may send."""
        self._session = aiohttp.ClientSession(
            # No limit here: who is asked again would go before all who wait for a connection, for ever. Reports bounds
            # how many polls are held.
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=None, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            # A few kilobytes of gzip may unfold to gigabytes.
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def fetch(self, target: Target, after: int, wait: float) -> WarmupReport:
        """A report, as Fetch says."""
        # The time in the queue is not the pod's.
        async with contextlib.nullcontext() if wait else self._asked:
            return await self._fetch(target, after, wait)

    async def _fetch(self, target: Target, after: int, wait: float) -> WarmupReport:
        timeout = aiohttp.ClientTimeout(total=wait + READ_SECONDS, sock_connect=CONNECT_SECONDS)
        query = {"after": str(after), "wait": f"{wait:g}"}
        try:
            # No redirects: a pod must not make the operator ask where only the operator may.
            async with self._session.get(target.url, params=query, timeout=timeout, allow_redirects=False) as response:
                body = await _body(response)
        except TimeoutError as error:
            raise Unreachable(f"no answer of {target.url} within {wait + READ_SECONDS:.0f} s") from error
        except aiohttp.ClientConnectorError as error:
            # Its own words repeat the address twice; these stand in a status for as long as a process starts.
            cause = os.strerror(error.errno).lower() if error.errno else str(error.os_error)
            raise Unreachable(f"no answer of {target.url}: {cause}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"no answer of {target.url}: {error}") from error
        return _report(body)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise Unusable(f"the status port answered with HTTP {response.status}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Unusable("the report is compressed")
    body = bytearray()
    # Counted as it comes: a Content-Length may be wrong or missing.
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MAX_REPORT_BYTES:
            raise Unusable(f"the report is larger than {MAX_REPORT_BYTES} bytes")
    return bytes(body)


def _report(body: bytes) -> WarmupReport:
    try:
        return decisive(WarmupReport.model_validate_json(body))
    except ValidationError as error:
        # Without the input: what a pod sends would stand in the status for all to read.
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise Unusable(f"the report cannot be read: {where}: {first['msg']}") from error


def _status_port(spec: Mapping[str, Any]) -> int:
    ports = (
        int(port["containerPort"])
        for container in spec.get("containers") or ()
        if container["name"] == CONTAINER
        for port in container.get("ports") or ()
        if port.get("name") == STATUS_PORT_NAME
    )
    return next(ports, ServingConfig().status_port)


SHORTEST_ROUND_SECONDS = 0.05
"""A pod that answers without waiting is asked at most twenty times a second."""

ANSWERS, ANSWERS_PER_SECOND = 600, 4.0
"""And so for half a minute, which is long for a warm-up of quick buckets; from then on at this rate."""

TURNS, TURNS_PER_SECOND = 10, 1.0
"""News of one pod that are looked at at once: its phases, and a few more. Others are looked at within a second."""

_RETRY_FIRST, _RETRY_MOST = 0.2, 10.0


class Held:
    """How many polls are held open at a time, and whose.

    Pods that serve take a quarter of them at most, and give way: whether a gate opens is for the others to say.
    """

    def __init__(self, most: int) -> None:
        """None of `most` is held."""
        self._most, self._now = most, 0

    @contextlib.contextmanager
    def hold(self, serves: bool) -> Iterator[bool]:
        """Whether a poll of such a pod may be held; it is until the block ends."""
        granted = self._now < (self._most // 4 if serves else self._most)
        self._now += granted
        try:
            yield granted
        finally:
            self._now -= granted


STARTING_WAIT_SECONDS = 10.0
"""The longest poll of a pod that does not serve yet: each answer says for how long nothing has moved, so a warm-up that
stands still is noticed at most so much later.
"""
ASK_SECONDS = 1.0
"""Between two questions to a pod that does not serve yet, and whose poll may not be held."""
ASKS, ASKS_PER_SECOND = 64, 200.0
"""Of all of them together, and of pods that serve: what is beyond has to wait."""


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
        self._held = Held(connections)
        self._asks = TokenBucket(ASKS, ASKS_PER_SECOND, clock)
        self.latest: dict[str, PodReport] = {}
        self._tasks: dict[Key, dict[Target, asyncio.Task[None]]] = defaultdict(dict)

    async def __aenter__(self) -> Self:
        """Nobody is asked yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all polls."""
        for key in list(self._tasks):
            self.follow(key, ())

    def warming(self) -> int:
        """How many pods are on their way to serving, as their last report says. May be called in another thread."""
        # Listed in one step: while a scrape counts, the loop hears of other pods.
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
