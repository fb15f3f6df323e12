"""The operator's requests and processor time to create, warm up, change and delete a resource.

    python -m tests.benchmarks.many_resources [NUMBER]

The benchmark uses a real API server with controllers. Pods run only in the phase in which they become ready. At the
end, an operator starts while all resources exist.
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
from tests.benchmarks.operator_stage import Stage, all_ready, run_benchmark
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PER_SECOND = 20.0
"""The rate at which resources are created and become ready."""
QUIET_SECONDS = 4.0
"""Longer than any delay of the operator."""
PATIENCE = 600.0
NAMESPACE = "many"

Counted = Counter[str]


class Meter:
    """Measures the operator's usage since the last measurement."""

    def __init__(self, operator: OperatorProcess, count: int) -> None:
        """Measure per resource, for `count` resources."""
        self._operator, self._count = operator, count
        self._cpu, self._before = 0.0, Counted()

    async def take(self, phase: str, requests_most: float | None = None) -> list[Figure]:
        """Return the usage since the last measurement, after the operator is idle."""
        counted = await self._settled()
        cpu = _cpu_seconds(self._operator)
        new = counted - self._before
        used, self._cpu, self._before = cpu - self._cpu, cpu, counted
        kinds = ", ".join(f"{name} {value / self._count:.2f}" for name, value in new.most_common(14))
        sys.stdout.write(f"{phase}: {kinds}\n")
        sys.stdout.flush()
        return [
            Figure(f"{phase}: requests per resource", new.total() / self._count, "", requests_most),
            Figure(f"{phase}: CPU per resource", 1000 * used / self._count, "ms"),
            Figure(f"{phase}: resident memory", _resident_mib(self._operator), "MiB"),
        ]

    async def _settled(self) -> Counted:
        counted, since = await _count_requests(self._operator), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(QUIET_SECONDS / 2)  # not more often, because /metrics costs the operator time as well
            now = await _count_requests(self._operator)
            if now != counted:
                counted, since = now, time.monotonic()
        return counted


async def measure(stage: Stage, count: int) -> list[Figure]:
    """Return the figures of all phases."""
    stage.plane.kubectl("create", "namespace", NAMESPACE)
    api = KubeApi(stage.plane.addresses.server, stage.plane.run_dir / "pki", NAMESPACE)
    meter = Meter(stage.operator, count)
    await meter.take("idle")
    names = [f"many-{number}" for number in range(count)]
    await _paced(names, lambda name: api.create(gaudi_inference(name)))
    await until(partial(_pods, api, count), "all pods to be created", seconds=PATIENCE, every=1.0)
    figures = await meter.take("create", 10)
    async with Kubelet(api) as kubelet:
        await until(partial(_running, kubelet, count), "all pods to run", seconds=PATIENCE, every=1.0)
        figures += await meter.take("start of pods")
        await _paced(sorted(kubelet.runtimes), partial(_warm, kubelet))
        await until(partial(all_ready, api), "all to be Ready", seconds=PATIENCE, every=1.0)
        figures += await meter.take("ready")
        figures += await _restart(stage.operator, meter, count)
        kubelet.schedulable = lambda _: False
        await _paced(names, lambda name: api.merge("GaudiInference", name, {"spec": {"engine": {"maxNumSeqs": 5}}}))
        await until(partial(_pods, api, 2 * count), "all canaries to be created", seconds=PATIENCE, every=1.0)
        figures += await meter.take("change")
        await _paced(names, lambda name: api.delete("GaudiInference", name))
        await until(partial(_pods, api, 0), "all pods to be gone", seconds=PATIENCE, every=1.0)
        figures += await meter.take("delete")
    await api.close()
    return figures


async def _restart(operator: OperatorProcess, meter: Meter, count: int) -> list[Figure]:
    """Measure a start while all resources exist, until the operator has reconciled each of them."""
    await operator.terminate()
    await operator.start()
    began = time.monotonic()
    await until(partial(_reconciled, operator, count), "the first reconcile of all", seconds=PATIENCE, every=0.25)
    took = time.monotonic() - began
    meter._cpu, meter._before = 0.0, Counted()
    return [Figure("start: all resources reconciled after", took, "s"), *await meter.take("start")]


async def _reconciled(operator: OperatorProcess, count: int) -> bool:
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


async def _count_requests(operator: OperatorProcess) -> Counted:
    """Return the number of requests to the API server so far by verb and resource, without watches and the Lease."""
    while True:
        with suppress(httpx.TimeoutException):  # a busy operator answers late
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
    sys.exit(run_benchmark(partial(measure, count=NUMBER)))
