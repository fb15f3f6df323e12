"""How many pods take traffic, and how many requests meet a cold graph, moment by moment from a watch.

The requests are computed, not sent: RATE of them a second for every desired replica, spread evenly over the pods that
are ready and over the buckets of the plan. One whose bucket has no graph in that pod is cold.
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
    """From `at` (monotonic seconds) on: the ready pods, and the mean share of their plans that has no graph."""

    at: float
    ready: int
    cold: float


@dataclass(frozen=True)
class Capacity:
    """Replica-seconds below the desired count, and requests in all and on cold graphs."""

    lost: float
    requests: float
    cold: float


class Ledger:
    """Follows the pods that are `mine`."""

    def __init__(self, api: KubeApi, kubelet: Kubelet, mine: Callable[[Object], bool]) -> None:
        """Nothing is watched yet."""
        self._api, self._kubelet, self._mine = api, kubelet, mine
        self._cold: dict[str, float] = {}
        self._moments: list[Moment] = []

    @property
    def ready(self) -> int:
        """Pods that take traffic now."""
        return len(self._cold)

    async def follow(self) -> None:
        """Watch until cancelled."""
        async for event in self._api.watch("Pod"):
            if self._mine(event["object"]):
                self._note(event["type"], event["object"])

    def since(self, begin: float, desired: int) -> Capacity:
        """Sums from `begin` (monotonic seconds) until now."""
        now = time.monotonic()
        known = [*self._moments, Moment(now, 0, 0.0)]
        spans = [(max(0.0, after.at - max(before.at, begin)), before) for before, after in pairwise(known)]
        return Capacity(
            lost=sum(seconds * max(0, desired - moment.ready) for seconds, moment in spans),
            requests=(now - begin) * desired * RATE,
            cold=sum(seconds * desired * RATE * moment.cold for seconds, moment in spans),
        )

    def _note(self, kind: str, pod: Object) -> None:
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
    """A ledger that follows meanwhile."""
    book = Ledger(api, kubelet, mine)
    task = asyncio.create_task(book.follow())
    try:
        yield book
        assert not task.done(), "The watch of the pods has ended: what it has not seen is missing from the sums."
    finally:
        task.cancel()
