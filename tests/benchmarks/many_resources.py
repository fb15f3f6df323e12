"""What a resource costs the operator: requests and processor time to create, make ready, change and delete it.

    python -m tests.benchmarks.many_resources [NUMBER]

A real API server with controllers; pods run only once their resource is to become ready. Processor time is that of the
operator with the process that works out plans. Ends with an operator that starts where all of them exist.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import httpx
import psutil

from tests.benchmarks.figures import Figure
from tests.benchmarks.operator_stage import Stage, all_ready, play
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PER_SECOND = 20.0
"""How quickly resources come, and become ready."""
QUIET_SECONDS = 4.0
"""Longer than the operator defers anything."""
PATIENCE = 600.0
NAMESPACE = "many"

Counted = Counter[str]


class Meter:
    """What the operator has used since the last look."""

    def __init__(self, operator: OperatorProcess, count: int) -> None:
        """Figures are for each of `count` resources."""
        self._operator, self._count = operator, count
        self._cpu, self._asked = 0.0, Counted()

    async def take(self, phase: str, requests_most: float | None = None) -> list[Figure]:
        """Figures of what was used, once the operator rests."""
        asked = await self._settled()
        cpu = _cpu_seconds(self._operator)
        new = asked - self._asked
        used, self._cpu, self._asked = cpu - self._cpu, cpu, asked
        kinds = ", ".join(f"{name} {value / self._count:.2f}" for name, value in new.most_common(14))
        sys.stdout.write(f"{phase}: {kinds}\n")
        sys.stdout.flush()
        return [
            Figure(f"{phase}: requests a resource", new.total() / self._count, "", requests_most),
            Figure(f"{phase}: CPU a resource", 1000 * used / self._count, "ms"),
            Figure(f"{phase}: resident memory", _resident_mib(self._operator), "MiB"),
        ]

    async def _settled(self) -> Counted:
        asked, since = await _asked(self._operator), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(QUIET_SECONDS / 2)  # not more often: to show its metrics takes the operator time, too
            now = await _asked(self._operator)
            if now != asked:
                asked, since = now, time.monotonic()
        return asked


async def measure(stage: Stage, count: int) -> list[Figure]:
    """All phases, one after the other."""
    stage.plane.kubectl("create", "namespace", NAMESPACE)
    api = KubeApi(stage.plane.addresses.server, stage.plane.run_dir / "pki", NAMESPACE)
    meter = Meter(stage.operator, count)
    await meter.take("idle")
    names = [f"many-{number}" for number in range(count)]
    await _paced(names, lambda name: api.create(gaudi_inference(name)))
    await until(partial(_pods, api, count), "all pods to be made", seconds=PATIENCE, every=1.0)
    figures = await meter.take("create", 10)
    async with Kubelet(api) as kubelet:
        await until(partial(_running, kubelet, count), "all pods to run", seconds=PATIENCE, every=1.0)
        figures += await meter.take("start of pods")
        await _paced(sorted(kubelet.runtimes), partial(_warm, kubelet))
        await until(partial(all_ready, api), "all to be Ready", seconds=PATIENCE, every=1.0)
        figures += await meter.take("ready")
        figures += await _restarted(stage.operator, meter, count)
        kubelet.schedulable = lambda _: False
        await _paced(names, lambda name: api.merge("GaudiInference", name, {"spec": {"engine": {"maxNumSeqs": 5}}}))
        await until(partial(_pods, api, 2 * count), "all canaries to be made", seconds=PATIENCE, every=1.0)
        figures += await meter.take("change")
        await _paced(names, lambda name: api.delete("GaudiInference", name))
        await until(partial(_pods, api, 0), "all pods to be gone", seconds=PATIENCE, every=1.0)
        figures += await meter.take("delete")
    await api.close()
    return figures


async def _restarted(operator: OperatorProcess, meter: Meter, count: int) -> list[Figure]:
    """A start where all of them exist: until each was looked at."""
    await operator.terminate()
    await operator.start()
    began = time.monotonic()
    await until(partial(_passed, operator, count), "the first passes", seconds=PATIENCE, every=0.25)
    took = time.monotonic() - began
    meter._cpu, meter._asked = 0.0, Counted()
    return [Figure("start: first passes of all", took, "s"), *await meter.take("start")]


async def _passed(operator: OperatorProcess, count: int) -> bool:
    with suppress(httpx.TimeoutException):
        return await operator.value("gaudi_operator_reconciles_total") >= count
    return False


async def _paced(names: list[str], act: Callable[[str], Awaitable[object]]) -> None:
    began = time.monotonic()
    for number, name in enumerate(names):
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        await act(name)


async def _warm(kubelet: Kubelet, pod: str) -> None:
    runtime = kubelet.runtimes[pod]
    assert isinstance(runtime, FakeRuntime)
    runtime.warm()


async def _pods(api: KubeApi, count: int) -> bool:
    return len(await api.list("Pod")) == count


async def _running(kubelet: Kubelet, count: int) -> bool:
    return len(kubelet.runtimes) == count


async def _asked(operator: OperatorProcess) -> Counted:
    """Requests to the API server so far by verb and resource, but watches and those for the Lease."""
    while True:
        with suppress(httpx.TimeoutException):  # whoever has much to do answers late
            samples = await operator.samples("gaudi_operator_api_requests_total")
            break
    found = Counted()
    for key, value in samples.items():
        labels = dict(key)
        if labels["resource"] != "leases" and labels["verb"] != "watch":
            code = "" if labels["code"].startswith("2") else f" {labels['code']}"
            found[f"{labels['verb']} {labels['resource']}{code}"] += int(value)
    return found


def _tree(operator: OperatorProcess) -> list[psutil.Process]:
    process = psutil.Process(operator.pid)
    return [process, *process.children(recursive=True)]


def _cpu_seconds(operator: OperatorProcess) -> float:
    return float(sum(sum(each.cpu_times()[:2]) for each in _tree(operator)))


def _resident_mib(operator: OperatorProcess) -> float:
    return float(sum(each.memory_info().rss for each in _tree(operator)) / 2**20)


if __name__ == "__main__":
    NUMBER = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    sys.exit(play(partial(measure, count=NUMBER)))
