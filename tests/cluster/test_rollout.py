"""Rollouts that keep the minimum available, replace pods in place without room, and can be paused and rolled back."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from gaudi_operator.cli.kubectl.undo import undo_patch
from gaudi_operator.core.names import FAILURE_ANNOTATION, NAME_LABEL, REVISION_LABEL
from gaudi_runtime.contract.report import Phase
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import all_running, is_open, leads, ready, stalled
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
    await until(partial(shows, api, "RollingOut"), "the rollout in the status")
    assert before < {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)}
    kubelet.on_start = FakeRuntime.warm
    kubelet.runtime(new).warm()
    await until(partial(ready, api), "the resource to be Ready")


async def test_rollout_ends_although_the_operator_is_killed_repeatedly(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    chance = random.Random(4)  # noqa: S311 - the same moments in every run
    kubelet.on_start = FakeRuntime.warm
    async with new_operator() as operator:
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
    """Return whether the resource is Ready and no pod belongs to an old revision."""
    pods = await api.list("Pod", NAME_LABEL)
    return await ready(api) and not any(each["metadata"]["labels"][REVISION_LABEL] in old for each in pods)


@dataclass
class Watched:
    """Two counts at every moment of a watch: serving pods, and the pods that all ReplicaSets request in total.

    One additional pod may exist for a moment, because the ReplicaSet controller handles two changed ReplicaSets
    concurrently.
    """

    available: list[int] = field(default_factory=list)
    desired: list[int] = field(default_factory=list)


@asynccontextmanager
async def watched(api: KubeApi) -> AsyncIterator[Watched]:
    """Record the available and the desired pods after every change, with one watch per kind."""
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


async def shows(api: KubeApi, reason: str) -> bool:
    """Return whether the condition Ready has that reason."""
    return condition_of(await api.get("GaudiInference", "tiny"), "Ready").get("reason") == reason


async def test_stalled_revision_stays_rolled_back_after_the_operator_is_killed(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    (good,) = await revisions(api)
    kubelet.on_start = lambda runtime: runtime.update(phase=Phase.COMPILING, since_progress_seconds=1801)
    async with watched(api) as seen:
        await api.merge("GaudiInference", "tiny", CHANGED)
        condition = await until(partial(stalled, api, "RolledBack"), "the rollback to end", seconds=60)
        await operator.kill()
        await operator.start()
        await api.merge("GaudiInference", "tiny", {"spec": {"service": {"port": 81}}})
        await until(partial(observed, api), "the new operator to have reconciled", seconds=60)
    assert "failed (WarmupStalled): No progress in pod tiny-" in condition["message"]
    assert min(seen.available) >= 2
    await until(partial(runs_alone, api, good), "the last pod of the failed revision to have ended")
    assert [good not in each["metadata"]["name"] for each in await failed(api)] == [True]


async def test_pods_are_replaced_in_place_when_nodes_lack_room(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await two_serve(api, kubelet)
    kubelet.schedulable = lambda _: len(kubelet.runtimes) < 2
    await replaced_in_place(api)


async def test_pods_are_replaced_in_place_when_quotas_lack_room(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await two_serve(api, kubelet)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}}
    await api.create(quota)
    await until(partial(quota_counts, api), "the quota to count the pods")
    await replaced_in_place(api)


async def test_paused_rollout_resumes_and_is_undone_by_patches(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    old = await revisions(api)
    kubelet.on_start = lambda _: None
    await api.merge("GaudiInference", "tiny", CHANGED)
    names = set(await until(partial(all_running, api, kubelet, 3), "the canary"))
    await api.merge("GaudiInference", "tiny", {"spec": {"rollout": {"paused": True}}})
    await until(partial(observed, api), "the pause to be observed")
    for name in names:
        if not kubelet.runtime(name).serving:
            kubelet.runtime(name).warm()
    await until(partial(serving, api, 3), "the canary to serve next to the old pods")
    assert {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)} == names
    kubelet.on_start = FakeRuntime.warm
    await api.merge("GaudiInference", "tiny", {"spec": {"rollout": {"paused": False}}})
    await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=60)
    new = await revisions(api) - old
    await undo(api, *old)
    await until(partial(rolled_out, api, new), "the first revision to serve again", seconds=60)
    assert await revisions(api) == old | new


async def test_stable_revision_returns_from_zero_while_paused(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    (good,) = await revisions(api)
    await api.merge("GaudiInference", "tiny", {"spec": {**CHANGED["spec"], "rollout": {"paused": True}}})
    await until(partial(shows, api, "RolloutPaused"), "the paused rollout in the status")
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 0}}, "scale")
    await until(partial(shows, api, "ScaledToZero"), "no pod in the status")

    async def gone() -> bool:
        return await api.get("ReplicaSet", f"tiny-{good}") is None

    await until(gone, "the workload of the stable revision to be deleted")
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}}, "scale")
    await until(partial(serving, api, 2), "two pods to serve")
    assert await runs_alone(api, good)
    assert await shows(api, "RolloutPaused")
    await api.merge("GaudiInference", "tiny", {"spec": {"rollout": {"paused": False}}})
    await until(partial(rolled_out, api, {good}), "the new revision to serve alone", seconds=60)


async def undo(api: KubeApi, revision: str) -> None:
    """Patch the spec back to the spec of a kept revision."""
    resource = await api.get("GaudiInference", "tiny") or {}
    kept = await api.get("ControllerRevision", f"tiny-{revision}") or {}
    await api.change("GaudiInference", "tiny", undo_patch(resource, kept["data"]["inputs"]))


async def observed(api: KubeApi) -> bool:
    """Return whether the operator has written the status for the current spec."""
    resource = await api.get("GaudiInference", "tiny") or {}
    return bool(resource["status"]["observedGeneration"] == resource["metadata"]["generation"])


async def serving(api: KubeApi, count: int) -> bool:
    """Return whether exactly `count` pods take traffic."""
    resource = await api.get("GaudiInference", "tiny") or {}
    return bool(resource["status"]["readyReplicas"] == count)


async def runs_alone(api: KubeApi, revision: str) -> bool:
    """Return whether this revision has pods and all other pods are deleted. Terminating pods count as pods."""
    return {each["metadata"]["labels"][REVISION_LABEL] for each in await api.list("Pod", NAME_LABEL)} == {revision}


async def failed(api: KubeApi) -> list[Object]:
    """Return the ControllerRevisions that are marked as failed."""
    found = await api.list("ControllerRevision", NAME_LABEL)
    return [each for each in found if FAILURE_ANNOTATION in (each["metadata"].get("annotations") or {})]


async def quota_counts(api: KubeApi) -> bool:
    """Return whether the quota counts both pods. Until then, the quota would admit a third pod."""
    quota = await api.get("ResourceQuota", "two") or {}
    return bool(quota.get("status", {}).get("used", {}).get("pods") == "2")


async def two_serve(api: KubeApi, kubelet: Kubelet) -> None:
    """Create a resource with two replicas and wait until both replicas serve."""
    kubelet.on_start = FakeRuntime.warm
    rollout = {"surgeTimeoutSeconds": 1}
    await api.create(gaudi_inference("tiny", replicas=2, rollout=rollout))
    await until(partial(ready, api), "the resource to be Ready")


async def replaced_in_place(api: KubeApi) -> None:
    """Change the spec and wait until both pods are replaced.

    At most one pod is missing and one is additional at a time.
    """
    old = await revisions(api)
    async with watched(api) as seen:
        await api.merge("GaudiInference", "tiny", CHANGED)
        await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=90)
    assert min(seen.available) >= 1
    assert max(seen.desired) <= 3
    assert condition_of(await api.get("GaudiInference", "tiny"), "Stalled")["status"] == "False"
