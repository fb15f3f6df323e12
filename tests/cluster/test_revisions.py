"""Rollback of a failed revision, in-place replacement without room, and a paused rollout."""

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
    old = await names_of_revisions(api)
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
    new = await names_of_revisions(api) - old
    await undo(api, *old)
    await until(partial(rolled_out, api, new), "the first revision to serve again", seconds=60)
    assert await names_of_revisions(api) == old | new


async def undo(api: KubeApi, revision: str) -> None:
    """Patch the spec back to the spec of a kept revision."""
    resource = await api.get("GaudiInference", "tiny") or {}
    kept = await api.get("ControllerRevision", f"tiny-{revision}") or {}
    await api.change("GaudiInference", "tiny", undo_patch(resource, kept["data"]["inputs"]))


async def observed(api: KubeApi) -> bool:
    """Return whether the status has observed the current spec."""
    resource = await api.get("GaudiInference", "tiny") or {}
    return bool(resource["status"]["observedGeneration"] == resource["metadata"]["generation"])


async def serving(api: KubeApi, count: int) -> bool:
    """Return whether exactly `count` pods take traffic."""
    resource = await api.get("GaudiInference", "tiny") or {}
    return bool(resource["status"]["readyReplicas"] == count)


async def runs_alone(api: KubeApi, revision: str) -> bool:
    """Return whether this revision has pods and no other revision has a pod, including terminating pods."""
    return {each["metadata"]["labels"][REVISION_LABEL] for each in await api.list("Pod", NAME_LABEL)} == {revision}


async def failed(api: KubeApi) -> list[Object]:
    """Return the ControllerRevisions that are marked as failed."""
    found = await api.list("ControllerRevision", NAME_LABEL)
    return [each for each in found if FAILURE_ANNOTATION in (each["metadata"].get("annotations") or {})]


async def quota_counts(api: KubeApi) -> bool:
    """Return whether the quota counts both pods. Before that, the quota would admit a third pod."""
    quota = await api.get("ResourceQuota", "two") or {}
    return bool(quota.get("status", {}).get("used", {}).get("pods") == "2")


async def two_serve(api: KubeApi, kubelet: Kubelet) -> None:
    """Create a resource of two replicas and wait until both serve."""
    kubelet.on_start = FakeRuntime.warm
    rollout = {"surgeTimeoutSeconds": 1}
    await api.create(gaudi_inference("tiny", replicas=2, rollout=rollout))
    await until(partial(ready, api), "the resource to be Ready")


async def replaced_in_place(api: KubeApi) -> None:
    """Change the spec and wait until both pods are replaced, with at most one additional and one missing pod."""
    old = await names_of_revisions(api)
    async with watched(api) as seen:
        await api.merge("GaudiInference", "tiny", CHANGED)
        await until(partial(rolled_out, api, old), "the new revision to serve alone", seconds=90)
    assert min(seen.available) >= 1
    assert max(seen.desired) <= 3
    assert condition_of(await api.get("GaudiInference", "tiny"), "Stalled")["status"] == "False"
