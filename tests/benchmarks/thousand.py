"""The operator with a thousand resources and two thousand pods: its start, and the latency of gates.

    python -m tests.benchmarks.thousand [RESOURCES]

The benchmark uses a real API server with controllers and an operator with the Lease times of the chart, and writes the
pods' reports itself. First, another operator starts in its own cgroup. The benchmark measures three figures: the time
until this operator is ready, which means that it has reconciled all resources; the delay of its Lease renewals; and its
peak memory.

Then 500 additional pods warm up: 20 of them become warm each second while the others report progress. This load keeps
two cores busy, mainly with the API server. In a cluster, the operator does not share a core with the API server.
Therefore the operator has the highest priority here, and its latency does not include the wait for a core. As a lower
bound, another client writes a condition to a pod five times a second, and measures the time until a watch shows the
condition. The exit code is 1 if a limit is missed.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import psutil

from localcluster.sandbox import cgroups
from tests.benchmarks.figures import Figure, percentile, without_pauses
from tests.benchmarks.gate_latency import GateWatch, bare_writes, warm_one_by_one
from tests.benchmarks.operator_stage import Stage, all_ready, run_benchmark, running, settled
from tests.support.background import Background
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until

RETRY_SECONDS = 2.0
LEASE = {"lease_duration_seconds": 15, "renew_deadline_seconds": 10, "retry_period_seconds": RETRY_SECONDS}
"""The Lease times of the chart."""
RENEWALS = 10
REPLICAS = 2
CREATED_PER_SECOND = 20.0
WARMING, EACH = 25, 20
"""The number of resources that warm up, and their replicas."""
DONE_PER_SECOND = 20.0
PROGRESS_SECONDS = 5.0
"""Seconds between two reports of a pod that warms up: the time of a bucket."""
FIRST_IN_LINE = -10
"""The operator's niceness while gates are measured."""
CGROUP = "gaudi-bench"
PATIENCE = 1800.0


async def measure(stage: Stage, count: int) -> list[Figure]:
    """Return all figures of one run."""
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
    """Measure the start of another operator while all resources exist."""
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
        existing = f"start with {count} resources and {REPLICAS * count} pods"
        return [
            Figure(f"{existing}: all reconciled after", took, "s", 30),
            Figure("  latest renewal of the Lease, after its period", late, "s", 1),
            Figure("  peak memory", _peak_bytes(memory) / 10**6, "MB", 220),
        ]


async def gate_figures(stage: Stage, count: int) -> list[Figure]:
    """Measure gates of 500 pods, of which 20 become warm each second while the others report progress."""
    _raise_priority(stage.operator.pid)
    stage.kubelet.on_start = lambda _: None
    known = set(stage.kubelet.runtimes)
    for number in range(WARMING):
        await stage.api.create(gaudi_inference(f"warms-{number}", replicas=EACH))
    await until(partial(running, stage.kubelet, len(known) + WARMING * EACH), "more pods", seconds=PATIENCE)
    names = sorted(set(stage.kubelet.runtimes) - known)
    background, watch = Background(), GateWatch(stage.api)
    background.spawn(watch.follow())
    await until(partial(_seen, watch, known), "the watch to list all gates", seconds=PATIENCE)
    await until(partial(settled, stage.operator), "the requests of the start to end", seconds=PATIENCE)
    before = await _sent_within(stage)
    with without_pauses():
        async with bare_writes(stage) as bare:
            warmed = await warm_one_by_one(
                stage.kubelet, names, per_second=DONE_PER_SECOND, progress_seconds=PROGRESS_SECONDS
            )
            await until(partial(_seen, watch, set(warmed)), "all gates to open", seconds=PATIENCE)
    await background.stop()
    background.check()
    delays, floor = sorted(watch.opened[name] - when for name, when in warmed.items()), sorted(bare)
    sent = {bound: value - before.get(bound, 0.0) for bound, value in (await _sent_within(stage)).items()}
    load = f"report -> gate seen with {count} resources, {WARMING * EACH} pods, {DONE_PER_SECOND:g} a second"
    return [
        Figure(f"{load}: p50", percentile(delays, 50), "s"),
        Figure("  p99", percentile(delays, 99), "s"),
        Figure("  report -> gate sent (the operator's part), below: p50", _at_most(sent, 0.5), "s"),
        Figure("  p99", _at_most(sent, 0.99), "s", 1),
        Figure("  bare write of a condition -> seen: p50", percentile(floor, 50), "s"),
        Figure("  p99", percentile(floor, 99), "s"),
    ]


def _raise_priority(pid: int) -> None:
    # Set the priority of every thread, because each thread has its own. New threads inherit the priority of the thread
    # that starts them.
    for thread in psutil.Process(pid).threads():
        os.setpriority(os.PRIO_PROCESS, thread.id, FIRST_IN_LINE)


async def _sent_within(stage: Stage) -> dict[float, float]:
    """Return the number of gates that were sent within each bound in seconds, from the operator's own histogram."""
    samples = await stage.operator.samples("gaudi_operator_gate_sent_seconds_bucket")
    return {float(dict(labels)["le"]): value for labels, value in samples.items()}


def _at_most(within: Mapping[float, float], share: float) -> float:
    """Return the lowest bound of the histogram that covers at least this share."""
    return min(bound for bound, value in within.items() if value >= share * max(within.values()))


async def _seen(watch: GateWatch, names: set[str]) -> bool:
    return names <= watch.opened.keys()


async def _ready(stage: Stage) -> bool:
    """Return whether the leader is ready, which means that it has reconciled all resources.

    A follower is also ready.
    """
    with suppress(httpx.TransportError):  # a busy process answers late
        leads = await stage.operator.value("gaudi_operator_leader") == 1
        return leads and (await stage.operator.get("/readyz")).status_code == httpx.codes.OK
    return False


async def _renewed(renewals: list[float], count: int) -> bool:
    return len(renewals) >= count


@asynccontextmanager
async def _renewals(api: KubeApi) -> AsyncIterator[list[float]]:
    """Collect the times at which the Lease is acquired or renewed from now on, in monotonic seconds."""
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
    """A cgroup that accounts for memory, in version 1 or 2."""
    cgroups.prepare(CGROUP)
    unified = (cgroups.ROOT / "cgroup.controllers").exists()
    yield (cgroups.ROOT if unified else cgroups.ROOT / "memory") / CGROUP


def _peak_bytes(cgroup: Path) -> int:
    files = (cgroup / name for name in ("memory.peak", "memory.max_usage_in_bytes"))
    return int(next(each for each in files if each.exists()).read_text())


if __name__ == "__main__":
    COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    try:
        sys.exit(run_benchmark(partial(measure, count=COUNT), LEASE))
    finally:
        cgroups.remove(CGROUP)
