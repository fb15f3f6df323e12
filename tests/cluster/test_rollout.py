"""A rollout that replaces pods one after the other and keeps the minimum number of pods available."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from gaudi_operator.core.names import NAME_LABEL, REVISION_LABEL
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import all_running, is_open, leads, ready
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

CHANGED = {"spec": {"engine": {"maxNumSeqs": 8}}}
REPLICAS = 3


async def test_rollout_keeps_every_replica_available_and_surges_by_one(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=REPLICAS))
    await until(partial(ready, api), "the resource to be Ready")
    old = await revisions(api)
    async with watched(api) as seen:
        await api.merge("GaudiInference", "tiny", CHANGED)
        await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=60)
    assert min(seen.available) >= REPLICAS
    assert max(seen.desired) <= REPLICAS + 1


async def test_old_pods_stay_until_new_pods_are_warm(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    before = {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)}
    kubelet.on_start = lambda _: None
    await api.merge("GaudiInference", "tiny", CHANGED)
    names = set(await until(partial(all_running, api, kubelet, 3), "one new pod"))
    assert before < names
    (new,) = names - before
    kubelet.runtime(new).captured(9, 10)
    await until(partial(phase, api, "RollingOut"), "the rollout in the status")
    assert before < {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)}
    kubelet.on_start = FakeRuntime.warm
    kubelet.runtime(new).warm()
    await until(partial(ready, api), "the resource to be Ready")


async def test_scaling_creates_no_revision_and_restarts_no_pod(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    (before,) = await api.list("Pod", NAME_LABEL)
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 3}}, "scale")
    await until(partial(ready, api), "the resource to be Ready again")
    pods = await api.list("Pod", NAME_LABEL)
    assert len(pods) == 3
    assert before["metadata"]["uid"] in {each["metadata"]["uid"] for each in pods}
    assert len(await revisions(api)) == 1


async def test_scaled_to_zero_is_ready_without_pods(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 0}}, "scale")
    await until(partial(phase, api, "ScaledToZero"), "the phase ScaledToZero")
    assert not await api.list("Pod", NAME_LABEL)
    assert await ready(api)


async def test_rollout_ends_although_the_operator_is_killed_repeatedly(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    chance = random.Random(4)  # noqa: S311 - the same moments in every run
    kubelet.on_start = FakeRuntime.warm
    async with new_operator(identity="always-the-same-pod") as operator:
        await api.create(gaudi_inference("tiny", replicas=REPLICAS))
        await until(partial(ready, api), "the resource to be Ready")
        old = await revisions(api)
        async with watched(api) as seen:
            await api.merge("GaudiInference", "tiny", CHANGED)
            for _ in range(10):
                await until(partial(leads, operator), "the operator to lead")
                await asyncio.sleep(chance.uniform(0.0, 0.5))  # the time of the crash, not a wait for a condition
                await operator.kill()
                await operator.start()
            await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=90)
    assert min(seen.available) >= REPLICAS
    assert max(seen.desired) <= REPLICAS + 1
    assert len(await revisions(api)) == 2


async def revisions(api: KubeApi) -> set[str]:
    """Return the names of all revisions."""
    return {each["metadata"]["labels"][REVISION_LABEL] for each in await api.list("ControllerRevision", NAME_LABEL)}


async def rolled_out(api: KubeApi, old: set[str]) -> bool:
    """Return whether the resource is Ready and all its pods belong to a new revision."""
    pods = await api.list("Pod", NAME_LABEL)
    return await ready(api) and not any(each["metadata"]["labels"][REVISION_LABEL] in old for each in pods)


async def phase(api: KubeApi, name: str) -> bool:
    """Return whether the status has phase `name`."""
    return ((await api.get("GaudiInference", "tiny") or {}).get("status") or {}).get("phase") == name


@dataclass
class Watched:
    """The counts at every moment of a watch: serving pods, and the sum of pods that all ReplicaSets request.

    There may be one more pod for a moment: the ReplicaSet controller handles two changed ReplicaSets concurrently.
    """

    available: list[int] = field(default_factory=list)
    desired: list[int] = field(default_factory=list)


@asynccontextmanager
async def watched(api: KubeApi) -> AsyncIterator[Watched]:
    """Record both counts after every change, with one watch for each kind."""
    pods: dict[str, Object] = {}
    sets: dict[str, Object] = {}
    seen = Watched()

    async def follow(kind: str, known: dict[str, Object], update: Callable[[], None]) -> None:
        async for event in api.watch(kind):
            each = event["object"]
            known[each["metadata"]["uid"]] = each
            if event["type"] == "DELETED":
                del known[each["metadata"]["uid"]]
            update()

    def count_pods() -> None:
        living = (each for each in pods.values() if "deletionTimestamp" not in each["metadata"])
        seen.available.append(sum(_serves(each) for each in living))

    def count_desired() -> None:
        seen.desired.append(sum(each["spec"]["replicas"] for each in sets.values()))

    listed = {kind: {each["metadata"]["uid"] for each in await api.list(kind)} for kind in ("Pod", "ReplicaSet")}
    tasks = [
        asyncio.create_task(follow("Pod", pods, count_pods)),
        asyncio.create_task(follow("ReplicaSet", sets, count_desired)),
    ]
    await until(partial(_caught_up, pods, listed["Pod"]), "the watch to list all pods")
    await until(partial(_caught_up, sets, listed["ReplicaSet"]), "the watch to list all ReplicaSets")
    seen.available.clear()
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _caught_up(pods: dict[str, Object], listed: set[str]) -> bool:
    return listed <= pods.keys()


def _serves(pod: Object) -> bool:
    return condition_of(pod, "Ready").get("status") == "True" and is_open(pod)
