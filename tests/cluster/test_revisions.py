"""A revision that fails goes, one that finds no room takes that of old pods, and a held one waits for its word."""

from functools import partial

from gaudi_operator.cli.kubectl.undo import undo_patch
from gaudi_operator.core.names import FAILURE_ANNOTATION, NAME_LABEL, REVISION_LABEL
from gaudi_runtime.contract.report import Phase
from tests.cluster.pods import all_running, ready, stalled
from tests.cluster.test_rollout import CHANGED, rolled_out, watched
from tests.cluster.test_rollout import revisions as names_of_revisions
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess


async def test_stalled_revision_stays_rolled_back_after_the_operator_is_killed(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    (good,) = await names_of_revisions(api)
    kubelet.on_start = lambda runtime: runtime.tell(phase=Phase.COMPILING, since_progress_seconds=1801)
    async with watched(api) as seen:
        await api.merge("GaudiInference", "tiny", CHANGED)
        condition = await until(partial(stalled, api, "RolledBack"), "the way back to be over", seconds=60)
        await operator.kill()
        await operator.start()
        await api.merge("GaudiInference", "tiny", {"spec": {"service": {"port": 81}}})
        await until(partial(observed, api), "the new operator to have looked", seconds=60)
    assert "failed (WarmupStalled): Nothing moved in pod tiny-" in condition["message"]
    assert min(seen.available) >= 2
    await until(partial(runs_alone, api, good), "the last pod of the failed revision to have ended")
    assert [good not in each["metadata"]["name"] for each in await failed(api)] == [True]


async def test_pods_are_replaced_in_place_where_nodes_lack_room(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await two_serve(api, kubelet)
    kubelet.schedulable = lambda _: len(kubelet.runtimes) < 2
    await replaced_in_place(api)


async def test_pods_are_replaced_in_place_where_quotas_lack_room(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await two_serve(api, kubelet)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}}
    await api.create(quota)
    await until(partial(quota_counts, api), "the quota to count the pods")
    await replaced_in_place(api)


async def test_held_rollout_goes_on_once_released_and_patches_undo_it(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    old = await names_of_revisions(api)
    kubelet.on_start = lambda _: None
    await api.merge("GaudiInference", "tiny", CHANGED)
    names = set(await until(partial(all_running, api, kubelet, 3), "the canary"))
    await api.merge("GaudiInference", "tiny", {"spec": {"rollout": {"paused": True}}})
    await until(partial(observed, api), "the hold to be seen")
    for name in names:
        if not kubelet.runtime(name).serving:
            kubelet.runtime(name).warm()
    await until(partial(serving, api, 3), "the canary to serve beside the old pods")
    assert {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)} == names
    kubelet.on_start = FakeRuntime.warm
    await api.merge("GaudiInference", "tiny", {"spec": {"rollout": {"paused": False}}})
    await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=60)
    new = await names_of_revisions(api) - old
    await undo(api, *old)
    await until(partial(rolled_out, api, new), "the first revision to serve again", seconds=60)
    assert await names_of_revisions(api) == old | new


async def undo(api: KubeApi, revision: str) -> None:
    """Patch the spec so that it asks for a kept revision."""
    resource = await api.get("GaudiInference", "tiny") or {}
    kept = await api.get("ControllerRevision", f"tiny-{revision}") or {}
    await api.change("GaudiInference", "tiny", undo_patch(resource, kept["data"]["inputs"]))


async def observed(api: KubeApi) -> bool:
    """Whether the status judges the spec as it is."""
    resource = await api.get("GaudiInference", "tiny") or {}
    return bool(resource["status"]["observedGeneration"] == resource["metadata"]["generation"])


async def serving(api: KubeApi, count: int) -> bool:
    """Whether so many pods take traffic."""
    resource = await api.get("GaudiInference", "tiny") or {}
    return bool(resource["status"]["readyReplicas"] == count)


async def runs_alone(api: KubeApi, revision: str) -> bool:
    """Whether this revision has pods, and no other has one, not even one that is ending."""
    return {each["metadata"]["labels"][REVISION_LABEL] for each in await api.list("Pod", NAME_LABEL)} == {revision}


async def failed(api: KubeApi) -> list[Object]:
    """The ControllerRevisions that are marked as failed."""
    found = await api.list("ControllerRevision", NAME_LABEL)
    return [each for each in found if FAILURE_ANNOTATION in (each["metadata"].get("annotations") or {})]


async def quota_counts(api: KubeApi) -> bool:
    """Whether the quota knows of both pods: until then it would let a third one in."""
    quota = await api.get("ResourceQuota", "two") or {}
    return bool(quota.get("status", {}).get("used", {}).get("pods") == "2")


async def two_serve(api: KubeApi, kubelet: Kubelet) -> None:
    """Make a resource of two replicas, and wait until both serve."""
    kubelet.on_start = FakeRuntime.warm
    rollout = {"surgeTimeoutSeconds": 1}
    await api.create(gaudi_inference("tiny", replicas=2, rollout=rollout))
    await until(partial(ready, api), "the resource to be Ready")


async def replaced_in_place(api: KubeApi) -> None:
    """Change the spec: with one pod beside them at most, and one missing at most, both are replaced."""
    old = await names_of_revisions(api)
    async with watched(api) as seen:
        await api.merge("GaudiInference", "tiny", CHANGED)
        await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=90)
    assert min(seen.available) >= 1
    assert max(seen.asked_for) <= 3
    assert condition_of(await api.get("GaudiInference", "tiny"), "Stalled")["status"] == "False"
