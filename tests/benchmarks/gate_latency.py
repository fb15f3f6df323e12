"""The operator's own costs: the latency from a pod's report to its written gate, requests, memory and CPU at rest.

    python -m tests.benchmarks.gate_latency

The benchmark uses a real API server with controllers, and writes the pods' reports itself. The exit code is 1 if a
limit is missed.
"""

import asyncio
import itertools
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import psutil

from gaudi_operator.core.names import GATE
from gaudi_runtime.contract.report import Phase
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.operator_stage import Stage, all_ready, requests, run_benchmark, running, settled
from tests.support.background import Background
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PODS = 50
RESOURCES = 200
REST_SECONDS = 20.0
BARE, BARE_SECONDS = "bare", 0.2
"""The pod that receives bare writes, and the seconds between their starts."""
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
    """Measure 50 pods of one resource that become warm one after the other, while the other pods report progress."""
    await api.create(gaudi_inference("many", replicas=PODS))
    await until(partial(running, kubelet, PODS), f"{PODS} pods", seconds=120)
    await until(partial(settled, operator), "the requests of the start to end", seconds=60)
    before = await requests(operator, STATUS)
    delays = await gate_delays(api, kubelet, sorted(kubelet.runtimes), per_second=10, progress_seconds=0.5)
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
    """Measure 200 resources with one serving pod each, while nothing changes."""
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


async def gate_delays(
    api: KubeApi, kubelet: Kubelet, names: Sequence[str], *, per_second: float, progress_seconds: float
) -> list[float]:
    """Return the seconds from the report of each warm pod until a watch shows its gate, sorted."""
    background, watch = Background(), GateWatch(api)
    background.spawn(watch.follow())
    warmed = await warm_one_by_one(kubelet, names, per_second=per_second, progress_seconds=progress_seconds)
    await until(partial(_all_open, watch, warmed), "all gates to open", seconds=60)
    await background.stop()
    background.check()
    return sorted(watch.opened[name] - when for name, when in warmed.items())


@asynccontextmanager
async def bare_writes(stage: Stage) -> AsyncIterator[list[float]]:
    """Measure the seconds from each write of a condition to a pod of another namespace until a watch shows it."""
    api = KubeApi(stage.plane.addresses.server, stage.plane.run_dir / "pki", "default")
    container = {"name": "none", "image": "registry.test/none:1"}
    await api.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": BARE}, "spec": {"containers": [container]}}
    )
    found, written = list[float](), dict[str, float]()

    async def watch() -> None:
        async for event in api.watch("Pod"):
            number = condition_of(event["object"], GATE).get("message")
            if number in written:
                found.append(time.monotonic() - written.pop(number))

    async def write(number: int) -> None:
        condition = {"type": GATE, "status": "True", "message": str(number)}
        written[str(number)] = time.monotonic()
        await api.strategic("Pod", BARE, {"status": {"conditions": [condition]}}, "status")

    async def write_all() -> None:
        # The writes do not wait for each other, because the operator's gate writes do not either. If each write waited
        # for the previous one, a pause of the API server would delay one write only, and the figure would be too good.
        for number in itertools.count():
            background.spawn(write(number))
            await asyncio.sleep(BARE_SECONDS)

    background = Background()
    background.spawn(watch())
    background.spawn(write_all())
    yield found
    await background.stop()
    background.check()
    await api.close()


async def warm_one_by_one(
    kubelet: Kubelet, names: Sequence[str], *, per_second: float, progress_seconds: float
) -> dict[str, float]:
    """Make the pods warm one after the other in random order. Return the time of each report in monotonic seconds.

    `per_second` pods become warm each second. The other pods report progress every `progress_seconds`.
    """
    chance = random.Random(1)  # noqa: S311 - the same order in every run
    order = chance.sample(names, len(names))
    warmed: dict[str, float] = {}
    background = Background()
    background.spawn(_progress(kubelet, names, warmed, progress_seconds))
    for name in order:
        await asyncio.sleep(chance.expovariate(per_second))
        warmed[name] = time.monotonic()
        kubelet.runtime(name).warm()
    await background.stop()
    background.check()
    return warmed


async def _progress(kubelet: Kubelet, names: Sequence[str], warmed: dict[str, float], seconds: float) -> None:
    for step in itertools.count():
        for name in names:
            if name not in warmed:
                kubelet.runtime(name).captured(step % 10, step % 7, Phase.CAPTURING)
            await asyncio.sleep(seconds / len(names))


async def _all_open(watch: GateWatch, warmed: dict[str, float]) -> bool:
    return warmed.keys() <= watch.opened.keys()


if __name__ == "__main__":
    sys.exit(run_benchmark(measure))
