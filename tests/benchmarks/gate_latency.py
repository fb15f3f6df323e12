"""The operator's own share: latency from a pod's report to its written gate, requests, memory and CPU at rest.

    python -m tests.benchmarks.gate_latency

It uses a real API server with controllers, and the test writes the pods' reports. Ends with exit code 1 if a limit is
missed.
"""

import asyncio
import itertools
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import psutil

from gaudi_operator.core.names import GATE
from gaudi_runtime.contract.report import Phase
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.operator_stage import Stage, all_ready, requests, run_benchmark, running, settled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PODS = 50
RESOURCES = 200
REST_SECONDS = 20.0
STATUS = "gaudiinferences/status"


class GateWatch:
    """The time at which each pod's gate was first seen open by a watch, in monotonic seconds."""

    def __init__(self, api: KubeApi) -> None:
        """Create the watch without starting it."""
        self._api = api
        self.opened: dict[str, float] = {}

    async def follow(self) -> None:
        """Watch until cancelled."""
        async for event in self._api.watch("Pod"):
            pod = event["object"]
            if condition_of(pod, GATE).get("status") == "True":
                self.opened.setdefault(pod["metadata"]["name"], time.monotonic())


async def measure(stage: Stage) -> list[Figure]:
    """Return all figures of one run."""
    figures = await gate_figures(stage.api, stage.kubelet, stage.operator)
    return figures + await rest_figures(stage.api, stage.kubelet, stage.operator)


async def gate_figures(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> list[Figure]:
    """50 pods of one resource become warm one after the other while the others report progress."""
    await api.create(gaudi_inference("many", replicas=PODS))
    await until(partial(running, kubelet, PODS), f"{PODS} pods", seconds=120)
    await until(partial(settled, operator), "the requests of the start to end", seconds=60)
    before = await requests(operator, STATUS)
    async with _watching(api) as watch:
        warmed = await _warm_one_by_one(kubelet)
        await until(partial(_all_open, watch, warmed), "all gates to open", seconds=60)
    delays = sorted(watch.opened[name] - when for name, when in warmed.items())
    await until(partial(settled, operator), "the requests to end", seconds=60)
    per_pod = (await requests(operator, STATUS) - before) / PODS
    await api.merge("GaudiInference", "many", {"spec": {"replicas": 0}})
    await until(partial(running, kubelet, 0), "the pods to be gone", seconds=120)
    return [
        Figure(f"report -> gate seen, p50 of {PODS} pods", percentile(delays, 50), "s"),
        Figure(f"report -> gate seen, p99 of {PODS} pods", percentile(delays, 99), "s", 0.3),
        Figure("API requests per ready pod, without status", per_pod, "", 3),
    ]


async def rest_figures(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> list[Figure]:
    """200 resources with one serving pod each, and no changes."""
    kubelet.on_start = FakeRuntime.warm
    for number in range(RESOURCES):
        await api.create(gaudi_inference(f"tiny-{number}"))
    await until(partial(all_ready, api), f"{RESOURCES} resources to be Ready", seconds=300, every=1.0)
    await until(partial(settled, operator), "the requests to end", seconds=120)
    process = psutil.Process(operator.pid)
    count, cpu = await requests(operator, STATUS), sum(process.cpu_times()[:2])
    await asyncio.sleep(REST_SECONDS)
    used = sum(process.cpu_times()[:2]) - cpu
    return [
        Figure(
            f"API requests at rest, {RESOURCES} resources, {REST_SECONDS:.0f} s",
            await requests(operator, STATUS) - count,
            "",
            0,
        ),
        Figure(f"resident memory, {RESOURCES} resources", process.memory_info().rss / 2**20, "MiB"),
        Figure(f"CPU at rest, {RESOURCES} resources", 100 * used / REST_SECONDS, "% of a core"),
    ]


async def _warm_one_by_one(kubelet: Kubelet) -> dict[str, float]:
    """Make a pod warm every 0.1 s on average, in random order, while the others report progress twice a second."""
    chance = random.Random(1)  # noqa: S311 - the same order in every run
    names = sorted(kubelet.runtimes)
    chance.shuffle(names)
    warmed: dict[str, float] = {}
    progress = asyncio.create_task(_progress(kubelet, warmed))
    for name in names:
        await asyncio.sleep(chance.expovariate(10))
        warmed[name] = time.monotonic()
        kubelet.runtime(name).warm()
    progress.cancel()
    return warmed


async def _progress(kubelet: Kubelet, warmed: dict[str, float]) -> None:
    for step in itertools.count():
        for name in kubelet.runtimes:
            if name not in warmed:
                kubelet.runtime(name).captured(step % 10, step % 7, Phase.CAPTURING)
            await asyncio.sleep(0.5 / PODS)


@asynccontextmanager
async def _watching(api: KubeApi) -> AsyncIterator[GateWatch]:
    watch = GateWatch(api)
    task = asyncio.create_task(watch.follow())
    yield watch
    task.cancel()


async def _all_open(watch: GateWatch, warmed: dict[str, float]) -> bool:
    return warmed.keys() <= watch.opened.keys()


if __name__ == "__main__":
    sys.exit(run_benchmark(measure))
