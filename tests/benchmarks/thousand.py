"""A thousand resources with two thousand pods: how an operator starts beside them, and a gate beside them.

    python -m tests.benchmarks.thousand [RESOURCES]

A real API server with controllers, the operator with the Lease of the chart; the pods' reports are the test's. First
the start of another operator, in a cgroup of its own: until it is ready, which it is when it has looked at all of them;
how late its Lease was renewed; the most memory that it had, with its process for plans. Then 500 pods more warm up, and
20 of them are done each second while the others report progress. That keeps two cores busy by itself, most of all the
API server. In a cluster the operator shares no core with that: here it is first in line for one, so that its part of a
gate is its own and not the wait for a core. For the rest of it a client of nobody writes a condition to a pod of its
own, five times a second, and what that takes is what nobody could be quicker than. Ends with exit code 1 when a limit
is missed.
"""

import asyncio
import itertools
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import psutil

from gaudi_operator.core.names import GATE
from gaudi_runtime.contract.report import Phase
from localcluster import cgroups
from tests.benchmarks.figures import Figure, percentile, without_pauses
from tests.benchmarks.gate_latency import GateWatch
from tests.benchmarks.operator_stage import Stage, all_ready, play, running, settled
from tests.support.background import Background
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet

RETRY_SECONDS = 2.0
LEASE = {"lease_duration_seconds": 15, "renew_deadline_seconds": 10, "retry_period_seconds": RETRY_SECONDS}
"""As in the chart."""
RENEWALS = 10
REPLICAS = 2
CREATED_PER_SECOND = 20.0
WARMING, EACH = 25, 20
"""Resources that warm up, and replicas of each."""
DONE_PER_SECOND = 20.0
PROGRESS_SECONDS = 5.0
"""Between two reports of a pod that warms up: a bucket takes as long."""
BARE, BARE_SECONDS = "bare", 0.2
"""The pod that is written to for comparison, and how long after the one write the next begins."""
FIRST_IN_LINE = -10
"""The operator's niceness while gates are measured."""
CGROUP = "gaudi-bench"
PATIENCE = 1800.0


async def measure(stage: Stage, count: int) -> list[Figure]:
    """All figures of one run."""
    stage.kubelet.on_start = FakeRuntime.warm
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / CREATED_PER_SECOND - time.monotonic()))
        await stage.api.create(gaudi_inference(f"rests-{number}", replicas=REPLICAS))
    await until(partial(all_ready, stage.api), f"{count} resources to be Ready", seconds=PATIENCE, every=2.0)
    await until(partial(settled, stage.operator), "the operator to be at rest", seconds=PATIENCE)
    figures = await start_figures(stage, count)
    return figures + await gate_figures(stage, count)


async def start_figures(stage: Stage, count: int) -> list[Figure]:
    """Of another process that starts where all of them exist."""
    await stage.operator.terminate()
    with _cgroup() as memory:
        stage.operator.cgroup = memory
        async with _renewals(stage.api) as renewals:
            began = time.monotonic()
            await stage.operator.start()
            await until(partial(_ready, stage), "the operator to be ready", seconds=PATIENCE, every=0.25)
            took = time.monotonic() - began
            await until(partial(_renewed, renewals, RENEWALS), "renewals of the Lease", seconds=PATIENCE)
        await until(partial(settled, stage.operator), "the operator to be at rest", seconds=PATIENCE)
        late = max(after - before for before, after in pairwise(renewals)) - RETRY_SECONDS
        beside = f"start beside {count} resources and {REPLICAS * count} pods"
        return [
            Figure(f"{beside}: all looked at after", took, "s", 30),
            Figure("  the latest renewal of the Lease, beyond its period", late, "s", 1),
            Figure("  most memory, with the process for plans", _most_bytes(memory) / 10**6, "MB", 220),
        ]


async def gate_figures(stage: Stage, count: int) -> list[Figure]:
    """20 pods a second become warm, of 500 that report progress."""
    _put_first_in_line(stage.operator.pid)
    stage.kubelet.on_start = lambda _: None
    known = set(stage.kubelet.runtimes)
    for number in range(WARMING):
        await stage.api.create(gaudi_inference(f"warms-{number}", replicas=EACH))
    await until(partial(running, stage.kubelet, len(known) + WARMING * EACH), "more pods", seconds=PATIENCE)
    names = sorted(set(stage.kubelet.runtimes) - known)
    background, watch = Background(), GateWatch(stage.api)
    background.spawn(watch.follow())
    await until(partial(_seen, watch, known), "the watch to know all gates", seconds=PATIENCE)
    await until(partial(settled, stage.operator), "the requests of the start to end", seconds=PATIENCE)
    before = await _sent_within(stage)
    with without_pauses():
        async with _bare_writes(stage) as bare:
            told = await _warm(stage.kubelet, names)
            await until(partial(_seen, watch, set(told)), "all gates to open", seconds=PATIENCE)
    await background.stop()
    background.check()
    delays, floor = sorted(watch.opened[name] - when for name, when in told.items()), sorted(bare)
    sent = {bound: value - before.get(bound, 0.0) for bound, value in (await _sent_within(stage)).items()}
    beside = f"report -> gate seen beside {count} resources, {WARMING * EACH} pods, {DONE_PER_SECOND:g} a second"
    return [
        Figure(f"{beside}: p50", percentile(delays, 50), "s"),
        Figure("  p99", percentile(delays, 99), "s"),
        Figure("  the operator's part of it, until the gate is sent, below: p50", _at_most(sent, 0.5), "s"),
        Figure("  p99", _at_most(sent, 0.99), "s", 1),
        Figure("  a bare write of a condition -> seen, meanwhile: p50", percentile(floor, 50), "s"),
        Figure("  p99", percentile(floor, 99), "s"),
    ]


def _put_first_in_line(pid: int) -> None:
    # Each thread has a niceness of its own; later ones get that of the thread that starts them.
    for thread in psutil.Process(pid).threads():
        os.setpriority(os.PRIO_PROCESS, thread.id, FIRST_IN_LINE)


async def _sent_within(stage: Stage) -> dict[float, float]:
    """How many gates were sent within so many seconds of their report, by the operator's own histogram."""
    samples = await stage.operator.samples("gaudi_operator_gate_sent_seconds_bucket")
    return {float(dict(labels)["le"]): value for labels, value in samples.items()}


def _at_most(within: Mapping[float, float], share: float) -> float:
    """The least bound of the histogram that holds so large a share."""
    return min(bound for bound, value in within.items() if value >= share * max(within.values()))


@asynccontextmanager
async def _bare_writes(stage: Stage) -> AsyncIterator[list[float]]:
    """Seconds from each write of a condition to a pod of another namespace until a watch shows it."""
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
        # None waits for the answer to another, as no gate does: else a second of silence would count once.
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


async def _warm(kubelet: Kubelet, names: list[str]) -> dict[str, float]:
    """One after the other is done, in a random order; the rest report progress."""
    chance = random.Random(1)  # noqa: S311 - the same order in every run
    order = chance.sample(names, len(names))
    told: dict[str, float] = {}
    background = Background()
    background.spawn(_progress(kubelet, names, told))
    for name in order:
        await asyncio.sleep(chance.expovariate(DONE_PER_SECOND))
        told[name] = time.monotonic()
        kubelet.runtime(name).warm()
    await background.stop()
    background.check()
    return told


async def _progress(kubelet: Kubelet, names: list[str], told: dict[str, float]) -> None:
    for step in itertools.count():
        for name in names:
            if name not in told:
                kubelet.runtime(name).captured(step % 10, step % 7, Phase.CAPTURING)
            await asyncio.sleep(PROGRESS_SECONDS / len(names))


async def _seen(watch: GateWatch, names: set[str]) -> bool:
    return names <= watch.opened.keys()


async def _ready(stage: Stage) -> bool:
    """A follower is ready too: only a leader has looked at all of them."""
    with suppress(httpx.TransportError):  # a busy process answers late
        leads = await stage.operator.value("gaudi_operator_leader") == 1
        return leads and (await stage.operator.get("/readyz")).status_code == httpx.codes.OK
    return False


async def _renewed(renewals: list[float], count: int) -> bool:
    return len(renewals) >= count


@asynccontextmanager
async def _renewals(api: KubeApi) -> AsyncIterator[list[float]]:
    """When the Lease was taken and renewed from now on; monotonic seconds."""
    found: list[float] = []

    async def watch() -> None:
        async for event in api.watch("Lease"):
            if event["type"] == "MODIFIED" and event["object"]["spec"].get("holderIdentity"):
                found.append(time.monotonic())

    background = Background()
    background.spawn(watch())
    yield found
    await background.stop()
    background.check()


@contextmanager
def _cgroup() -> Iterator[Path]:
    """One that counts memory, by cgroup v1 or v2."""
    cgroups.prepare(CGROUP)
    unified = (cgroups.ROOT / "cgroup.controllers").exists()
    yield (cgroups.ROOT if unified else cgroups.ROOT / "memory") / CGROUP


def _most_bytes(cgroup: Path) -> int:
    files = (cgroup / name for name in ("memory.peak", "memory.max_usage_in_bytes"))
    return int(next(each for each in files if each.exists()).read_text())


if __name__ == "__main__":
    COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    try:
        sys.exit(play(partial(measure, count=COUNT), LEASE))
    finally:
        cgroups.remove(CGROUP)
