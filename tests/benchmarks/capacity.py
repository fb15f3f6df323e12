"""Count ready pods, and requests without a captured graph, over time, from a watch.

Requests are computed, not sent: RATE per second and desired replica, spread evenly over the ready pods and the buckets
of the plan. A request is cold if the pod has no graph for its bucket.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

from tests.support.fake_runtime import PLANNED, FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of
from tests.support.kubelet import Kubelet

RATE = 1.0


@dataclass(frozen=True)
class Moment:
    """The ready pods, and the mean share of their plans without a graph, from the time `at` (monotonic seconds) on."""

    at: float
    ready: int
    cold: float


@dataclass(frozen=True)
class Capacity:
    """Replica-seconds below the desired count, all requests, and requests on cold graphs."""

    lost: float
    requests: float
    cold: float


class Ledger:
    """Records the pods for which `mine` returns true."""

    def __init__(self, api: KubeApi, kubelet: Kubelet, mine: Callable[[Object], bool]) -> None:
        """Create the ledger without starting the watch."""
        self._api, self._kubelet, self._mine = api, kubelet, mine
        self._cold: dict[str, float] = {}
        self._moments: list[Moment] = []

    @property
    def ready(self) -> int:
        """Return the number of pods that are ready now."""
        return len(self._cold)

    async def follow(self) -> None:
        """Watch until cancelled."""
        async for event in self._api.watch("Pod"):
            if self._mine(event["object"]):
                self._record(event["type"], event["object"])

    def since(self, begin: float, desired: int) -> Capacity:
        """Return the sums from `begin` (monotonic seconds) until now."""
        now = time.monotonic()
        known = [*self._moments, Moment(now, 0, 0.0)]
        spans = [(max(0.0, after.at - max(before.at, begin)), before) for before, after in pairwise(known)]
        return Capacity(
            lost=sum(seconds * max(0, desired - moment.ready) for seconds, moment in spans),
            requests=(now - begin) * desired * RATE,
            cold=sum(seconds * desired * RATE * moment.cold for seconds, moment in spans),
        )

    def _record(self, kind: str, pod: Object) -> None:
        name = pod["metadata"]["name"]
        serves = kind != "DELETED" and "deletionTimestamp" not in pod["metadata"]
        runtime = self._kubelet.runtimes.get(name)
        if serves and runtime is not None and condition_of(pod, "Ready").get("status") == "True":
            assert isinstance(runtime, FakeRuntime)
            self._cold[name] = _share_without_graph(runtime)
        else:
            self._cold.pop(name, None)
        shares = self._cold.values()
        self._moments.append(Moment(time.monotonic(), len(shares), sum(shares) / max(1, len(shares))))


def _share_without_graph(runtime: FakeRuntime) -> float:
    captured = runtime.report.prompt.captured + runtime.report.decode.captured
    return 1 - captured / (2 * PLANNED)


@asynccontextmanager
async def ledger(api: KubeApi, kubelet: Kubelet, mine: Callable[[Object], bool]) -> AsyncIterator[Ledger]:
    """A ledger that records the pods during the block."""
    book = Ledger(api, kubelet, mine)
    task = asyncio.create_task(book.follow())
    try:
        yield book
        assert not task.done(), "The watch of the pods ended early, so the sums are incomplete."
    finally:
        task.cancel()
