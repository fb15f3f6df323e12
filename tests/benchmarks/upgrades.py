"""Upgrades of 100 replicas: wall time, the operator's share, lost capacity and cold graphs, compared with a Deployment.

    python -m tests.benchmarks.upgrades [WARM_UP_SECONDS [resting]]

The benchmark uses a real API server with controllers and the real operator. The replicas are simulated: a scripted
kubelet starts and ends each container immediately, and the reports of a container grow by one tenth of the plan at a
time over WARM_UP_SECONDS. A pod of the Deployment is ready when its warm-up has ended. A short revision captures 60 %
of its graphs. Requests are computed (capacity.py).

The last upgrade runs with 1,000 additional resources at rest. With `resting`, only this upgrade runs. The exit code is
1 if a limit is missed.
"""

import asyncio
import math
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

from gaudi_operator.core.names import CONTAINER, NAME_LABEL
from gaudi_runtime.contract.report import Phase
from tests.benchmarks.capacity import Capacity, Ledger, ledger
from tests.benchmarks.figures import Figure
from tests.benchmarks.operator_stage import Stage, all_ready, requests, run_benchmark, settled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import PLANNED, FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until

REPLICAS = 100
SURGE = 25
RESTING = 1000
SHORT = 6
WARM_UP_SECONDS = 20.0
LIMIT = 1.1
PATIENCE = 1200.0
STATUS = "gaudiinferences/status"
MANY, PLAIN = "many", "plain"


class WarmUps:
    """The warm-up of every new container: in `seconds`, it captures `captured` of PLANNED graphs of each phase."""

    def __init__(self) -> None:
        """Configure an immediate warm-up with all graphs."""
        self.seconds, self.captured = 0.0, PLANNED
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, runtime: FakeRuntime) -> None:
        """Start the warm-up of a new container."""
        task = asyncio.create_task(self._run(runtime, self.seconds, self.captured))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, runtime: FakeRuntime, seconds: float, captured: int) -> None:
        clock = asyncio.get_running_loop().time
        begin = clock()
        for step in range(1, PLANNED + 1):
            await asyncio.sleep(max(0.0, begin + seconds * step / PLANNED - clock()))
            graphs = min(step, captured)
            runtime.captured(graphs, graphs, Phase.SERVING if step == PLANNED else Phase.CAPTURING)


@dataclass(frozen=True)
class Upgrade:
    """One upgrade: wall time and the operator's processor time in seconds, its requests, and the effect on clients."""

    seconds: float
    cpu: float
    requests: float
    statuses: float
    capacity: Capacity


async def measure(stage: Stage) -> list[Figure]:
    """Return all figures of one run."""
    warm_ups = WarmUps()
    stage.kubelet.on_start = warm_ups.begin
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else WARM_UP_SECONDS
    await stage.api.create(gaudi_inference(MANY, replicas=REPLICAS, rollout={"maxSurge": "25%"}))
    await until(partial(all_ready, stage.api), f"{REPLICAS} replicas", seconds=PATIENCE)
    figures = [] if sys.argv[2:] == ["resting"] else await figures_alone(stage, warm_ups, seconds)
    await rest(stage)
    warm_ups.seconds = seconds
    return figures + own_figures(f"{RESTING} resources at rest", await upgrade(stage, 7, "Ready"), seconds)


async def figures_alone(stage: Stage, warm_ups: WarmUps, seconds: float) -> list[Figure]:
    """Return the figures of upgrades without other resources."""
    warm_ups.seconds = seconds
    figures = own_figures("no other resources", await upgrade(stage, 5, "Ready"), seconds)
    warm_ups.captured = SHORT
    figures += short_figures("the operator", await upgrade(stage, 6, "Stalled"))
    figures += await plain_figures(stage, warm_ups, seconds)
    warm_ups.seconds, warm_ups.captured = 0.0, PLANNED
    return figures


async def rest(stage: Stage) -> None:
    """Create 1,000 resources with one serving pod each. The resource MANY may just have been rolled back."""
    for number in range(RESTING):
        await stage.api.create(gaudi_inference(f"tiny-{number}"))
    await until(partial(all_ready, stage.api, MANY), f"{RESTING} resources to be Ready", seconds=PATIENCE, every=5.0)


async def upgrade(stage: Stage, max_num_seqs: int, ending: str) -> Upgrade:
    """Change the engine's batch size, and wait until the resource's condition `ending` is True."""
    await until(partial(settled, stage.operator), "the operator to be at rest", seconds=PATIENCE)
    async with ledger(stage.api, stage.kubelet, _is_own) as book:
        await until(partial(_full, book), "the watch to list all pods")
        process = psutil.Process(stage.operator.pid)
        cpu, before, total = sum(process.cpu_times()[:2]), await _requests(stage), await requests(stage.operator)
        begin = time.monotonic()
        await stage.api.merge("GaudiInference", MANY, {"spec": {"engine": {"maxNumSeqs": max_num_seqs}}})
        await until(partial(_ended, stage.api, ending), f"{MANY} to be {ending}", seconds=PATIENCE, every=0.1)
        seconds, capacity = time.monotonic() - begin, book.since(begin, REPLICAS)
    await until(partial(settled, stage.operator), "the last requests", seconds=PATIENCE)
    other = await _requests(stage) - before
    statuses = await requests(stage.operator) - total - other
    return Upgrade(seconds, sum(process.cpu_times()[:2]) - cpu, other, statuses, capacity)


async def plain_figures(stage: Stage, warm_ups: WarmUps, seconds: float) -> list[Figure]:
    """Measure upgrades of a Deployment: with its default limits, with our limits, and to a short revision."""
    warm_ups.seconds, warm_ups.captured = 0.0, PLANNED
    await stage.api.create(deployment())
    await until(partial(_rolled_out, stage.api), "the Deployment", seconds=PATIENCE)
    warm_ups.seconds = seconds
    default = await replace_plain(stage, {"maxSurge": "25%", "maxUnavailable": "25%"})
    ours = await replace_plain(stage, {"maxSurge": "25%", "maxUnavailable": 0})
    warm_ups.captured = SHORT
    short = await replace_plain(stage, {"maxSurge": "25%", "maxUnavailable": 0})
    await stage.api.delete("Deployment", PLAIN, propagationPolicy="Foreground")
    await until(partial(_pods_deleted, stage.api), "the Deployment's pods to be gone", seconds=PATIENCE)
    return [
        Figure("a Deployment with its default limits, wall time", default[0], "s"),
        Figure("  lost capacity", default[1].lost, "replica-s"),
        Figure("a Deployment with maxUnavailable 0, wall time", ours[0], "s"),
        Figure("  lost capacity", ours[1].lost, "replica-s"),
        Figure("a short revision by a Deployment: wall time", short[0], "s"),
        Figure("  requests on cold graphs during its rollout", short[1].cold, f"of {short[1].requests:.0f}"),
    ]


async def replace_plain(stage: Stage, limits: Object) -> tuple[float, Capacity]:
    """Return the seconds and the capacity of one rollout of the Deployment."""
    async with ledger(stage.api, stage.kubelet, _is_plain) as book:
        await until(partial(_full, book), "the watch to list all pods")
        begin = time.monotonic()
        template = {"metadata": {"annotations": {"changed": str(begin)}}}
        spec = {"strategy": {"rollingUpdate": limits}, "template": template}
        await stage.api.merge("Deployment", PLAIN, {"spec": spec})
        await until(partial(_rolled_out, stage.api), "the Deployment", seconds=PATIENCE, every=0.1)
        return time.monotonic() - begin, book.since(begin, REPLICAS)


def own_figures(others: str, done: Upgrade, warm_up: float) -> list[Figure]:
    """Return the figures of a good upgrade by the operator."""
    waves = 1 + math.ceil((REPLICAS - 1) / SURGE)
    return [
        Figure(f"upgrade of {REPLICAS} with {others}: wall time", done.seconds, "s"),
        Figure(f"  relative to {waves} warm-ups of {warm_up:g} s", done.seconds / (waves * warm_up), "", LIMIT),
        Figure("  operator's processor time", done.cpu, "s"),
        Figure("  processor time per replaced pod", 1000 * done.cpu / REPLICAS, "ms"),
        Figure("  API requests per replaced pod, without status", done.requests / REPLICAS, ""),
        Figure("  status writes", done.statuses, ""),
        Figure("  lost capacity", done.capacity.lost, "replica-s", 0),
        Figure("  requests on cold graphs", done.capacity.cold, f"of {done.capacity.requests:.0f}", 0),
    ]


def short_figures(by: str, done: Upgrade) -> list[Figure]:
    """Return the figures of an upgrade to a revision with too few graphs."""
    return [
        Figure(f"a short revision by {by}: rolled back after", done.seconds, "s"),
        Figure("  lost capacity", done.capacity.lost, "replica-s", 0),
        Figure("  requests on cold graphs", done.capacity.cold, f"of {done.capacity.requests:.0f}", 0),
    ]


def deployment() -> dict[str, Any]:
    """Return a Deployment with the same number of replicas."""
    labels = {"app": PLAIN}
    container = {"name": CONTAINER, "image": "registry.test/server:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": PLAIN},
        "spec": {
            "replicas": REPLICAS,
            "obstacleDeadlineSeconds": int(PATIENCE),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _is_own(pod: Object) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(NAME_LABEL) == MANY)


def _is_plain(pod: Object) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get("app") == PLAIN)


async def _requests(stage: Stage) -> float:
    return await requests(stage.operator, STATUS)


async def _full(book: Ledger) -> bool:
    return book.ready == REPLICAS


async def _ended(api: KubeApi, kind: str) -> bool:
    resource = await api.get("GaudiInference", MANY) or {}
    condition = condition_of(resource, kind)
    judged: bool = condition.get("observedGeneration") == resource["metadata"]["generation"]
    return judged and condition["status"] == "True"


async def _rolled_out(api: KubeApi) -> bool:
    found = await api.get("Deployment", PLAIN) or {}
    status = found.get("status") or {}
    counts = [status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return bool(status.get("observedGeneration") == found["metadata"]["generation"] and counts == [REPLICAS] * 3)


async def _pods_deleted(api: KubeApi) -> bool:
    return not await api.list("Pod", f"app={PLAIN}")


if __name__ == "__main__":
    sys.exit(run_benchmark(measure))
