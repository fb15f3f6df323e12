"""Upgrades of 100 replicas: wall time, the operator's share, lost capacity and cold graphs, beside a plain Deployment.

    python -m tests.benchmarks.upgrades [WARM_UP_SECONDS [beside]]

A real API server with controllers and the real operator. The replicas are simulated: a kubelet of ours starts each at
once, its reports tell of one tenth of the plan after the other for WARM_UP_SECONDS, and it ends at once. A pod of the
Deployment is the same: it is ready once its warm-up has ended, however long that takes. A short revision captures 60 %
of its graphs. Requests are computed (capacity.py). The last upgrade is beside 1,000 resources at rest; with `beside` it
is the only one. Ends with exit code 1 when a limit is missed.
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
from tests.benchmarks.operator_stage import Stage, all_ready, play, requests, settled
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
    """The warm-up of every container that starts: `captured` graphs of PLANNED of each phase, in `seconds`."""

    def __init__(self) -> None:
        """At once, and all graphs."""
        self.seconds, self.captured = 0.0, PLANNED
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, runtime: FakeRuntime) -> None:
        """A container has started."""
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
    """One upgrade: wall time and the operator's processor time in seconds, its requests, and what clients felt."""

    seconds: float
    cpu: float
    requests: float
    statuses: float
    capacity: Capacity


async def measure(stage: Stage) -> list[Figure]:
    """All figures of one run."""
    warm_ups = WarmUps()
    stage.kubelet.on_start = warm_ups.begin
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else WARM_UP_SECONDS
    await stage.api.create(gaudi_inference(MANY, replicas=REPLICAS, rollout={"maxSurge": "25%"}))
    await until(partial(all_ready, stage.api), f"{REPLICAS} replicas", seconds=PATIENCE)
    figures = [] if sys.argv[2:] == ["beside"] else await figures_alone(stage, warm_ups, seconds)
    await rest(stage)
    warm_ups.seconds = seconds
    return figures + own_figures(f"{RESTING} resources at rest", await upgrade(stage, 7, "Ready"), seconds)


async def figures_alone(stage: Stage, warm_ups: WarmUps, seconds: float) -> list[Figure]:
    """Of upgrades beside which there is nothing."""
    warm_ups.seconds = seconds
    figures = own_figures("nothing else", await upgrade(stage, 5, "Ready"), seconds)
    warm_ups.captured = SHORT
    figures += short_figures("the operator", await upgrade(stage, 6, "Stalled"))
    figures += await plain_figures(stage, warm_ups, seconds)
    warm_ups.seconds, warm_ups.captured = 0.0, PLANNED
    return figures


async def rest(stage: Stage) -> None:
    """1,000 resources with a serving pod each, and nothing to do. MANY may just have been rolled back."""
    for number in range(RESTING):
        await stage.api.create(gaudi_inference(f"tiny-{number}"))
    await until(partial(all_ready, stage.api, MANY), f"{RESTING} resources to be Ready", seconds=PATIENCE, every=5.0)


async def upgrade(stage: Stage, max_num_seqs: int, ending: str) -> Upgrade:
    """Change the engine's batch and wait until the condition `ending` is True of that."""
    await until(partial(settled, stage.operator), "the operator to be at rest", seconds=PATIENCE)
    async with ledger(stage.api, stage.kubelet, _is_own) as book:
        await until(partial(_full, book), "the watch to know all pods")
        process = psutil.Process(stage.operator.pid)
        cpu, asked, total = sum(process.cpu_times()[:2]), await _requests(stage), await requests(stage.operator)
        begin = time.monotonic()
        await stage.api.merge("GaudiInference", MANY, {"spec": {"engine": {"maxNumSeqs": max_num_seqs}}})
        await until(partial(_ended, stage.api, ending), f"{MANY} to be {ending}", seconds=PATIENCE, every=0.1)
        seconds, capacity = time.monotonic() - begin, book.since(begin, REPLICAS)
    await until(partial(settled, stage.operator), "the last requests", seconds=PATIENCE)
    other = await _requests(stage) - asked
    statuses = await requests(stage.operator) - total - other
    return Upgrade(seconds, sum(process.cpu_times()[:2]) - cpu, other, statuses, capacity)


async def plain_figures(stage: Stage, warm_ups: WarmUps, seconds: float) -> list[Figure]:
    """The same upgrades of a Deployment: with its default limits, with ours, and of a short revision."""
    warm_ups.seconds, warm_ups.captured = 0.0, PLANNED
    await stage.api.create(deployment())
    await until(partial(_rolled_out, stage.api), "the Deployment", seconds=PATIENCE)
    warm_ups.seconds = seconds
    default = await replace_plain(stage, {"maxSurge": "25%", "maxUnavailable": "25%"})
    ours = await replace_plain(stage, {"maxSurge": "25%", "maxUnavailable": 0})
    warm_ups.captured = SHORT
    short = await replace_plain(stage, {"maxSurge": "25%", "maxUnavailable": 0})
    await stage.api.delete("Deployment", PLAIN, propagationPolicy="Foreground")
    await until(partial(_none_left, stage.api), "the Deployment's pods to be gone", seconds=PATIENCE)
    return [
        Figure("a Deployment with its default limits, wall time", default[0], "s"),
        Figure("  lost capacity", default[1].lost, "replica-s"),
        Figure("a Deployment with maxUnavailable 0, wall time", ours[0], "s"),
        Figure("  lost capacity", ours[1].lost, "replica-s"),
        Figure("a short revision by a Deployment: wall time", short[0], "s"),
        Figure("  requests on cold graphs until it was rolled out", short[1].cold, f"of {short[1].requests:.0f}"),
    ]


async def replace_plain(stage: Stage, limits: Object) -> tuple[float, Capacity]:
    """Seconds and capacity of one rollout of the Deployment."""
    async with ledger(stage.api, stage.kubelet, _is_plain) as book:
        await until(partial(_full, book), "the watch to know all pods")
        begin = time.monotonic()
        template = {"metadata": {"annotations": {"changed": str(begin)}}}
        spec = {"strategy": {"rollingUpdate": limits}, "template": template}
        await stage.api.merge("Deployment", PLAIN, {"spec": spec})
        await until(partial(_rolled_out, stage.api), "the Deployment", seconds=PATIENCE, every=0.1)
        return time.monotonic() - begin, book.since(begin, REPLICAS)


def own_figures(beside: str, done: Upgrade, warm_up: float) -> list[Figure]:
    """Of a good upgrade by the operator."""
    waves = 1 + math.ceil((REPLICAS - 1) / SURGE)
    return [
        Figure(f"upgrade of {REPLICAS} beside {beside}: wall time", done.seconds, "s"),
        Figure(f"  over the ideal of {waves} warm-ups of {warm_up:g} s", done.seconds / (waves * warm_up), "", LIMIT),
        Figure("  operator's processor time", done.cpu, "s"),
        Figure("  the same per pod moved", 1000 * done.cpu / REPLICAS, "ms"),
        Figure("  API requests per pod moved, status aside", done.requests / REPLICAS, ""),
        Figure("  writes of the status", done.statuses, ""),
        Figure("  lost capacity", done.capacity.lost, "replica-s", 0),
        Figure("  requests on cold graphs", done.capacity.cold, f"of {done.capacity.requests:.0f}", 0),
    ]


def short_figures(by: str, done: Upgrade) -> list[Figure]:
    """Of an upgrade to a revision whose graphs fall short."""
    return [
        Figure(f"a short revision by {by}: rolled back after", done.seconds, "s"),
        Figure("  lost capacity", done.capacity.lost, "replica-s", 0),
        Figure("  requests on cold graphs", done.capacity.cold, f"of {done.capacity.requests:.0f}", 0),
    ]


def deployment() -> dict[str, Any]:
    """A Deployment of as many replicas."""
    labels = {"app": PLAIN}
    container = {"name": CONTAINER, "image": "registry.test/server:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": PLAIN},
        "spec": {
            "replicas": REPLICAS,
            "progressDeadlineSeconds": int(PATIENCE),
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


async def _none_left(api: KubeApi) -> bool:
    return not await api.list("Pod", f"app={PLAIN}")


if __name__ == "__main__":
    sys.exit(play(measure))
