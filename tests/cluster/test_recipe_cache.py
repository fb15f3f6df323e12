"""The PVC of recipes on a real API server: made, mounted, grown, kept at zero, and gone with its resource."""

from functools import partial
from typing import Any

from gaudi_operator.core.names import NAME_LABEL, REVISION_LABEL
from gaudi_runtime.contract.config import KeptRevisions
from tests.cluster.pods import ready, running
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

CLAIM = "tiny-recipes"
SHARED: dict[str, Any] = {"enabled": True, "size": "1Gi", "storageClassName": "fast"}


async def claim(api: KubeApi, size: str) -> Object | None:
    """The PVC, once it asks for this size."""
    found = await api.get("PersistentVolumeClaim", CLAIM)
    return found if found and found["spec"]["resources"]["requests"]["storage"] == size else None


async def told(api: KubeApi, but: str | None = None) -> tuple[str, ...]:
    """The revisions that pods are told, once they are those of the history and not `but` alone."""
    found = await api.get("ConfigMap", CLAIM)
    kept = KeptRevisions.model_validate_json(found["data"]["kept.json"]).revisions if found else ()
    stored = [each["metadata"]["labels"][REVISION_LABEL] for each in await api.list("ControllerRevision", NAME_LABEL)]
    return kept if sorted(kept) == sorted(stored) and set(kept) != {but} else ()


async def gone(api: KubeApi) -> bool:
    """Whether there is no PVC."""
    return await api.get("PersistentVolumeClaim", CLAIM) is None


async def no_pods(api: KubeApi) -> bool:
    """Whether the last pod is gone."""
    return not await api.list("Pod", NAME_LABEL)


async def test_claim_of_recipes_lives_as_long_as_its_resource(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", recipeCache=SHARED))
    made = await until(partial(claim, api, "1Gi"), "the PVC")
    assert (made["spec"]["storageClassName"], made["spec"]["accessModes"]) == ("fast", ["ReadWriteMany"])
    pod = await api.get("Pod", await running(api, kubelet))
    assert pod
    claims = [each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["spec"]["volumes"]]
    assert CLAIM in claims

    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 0}})
    await until(partial(no_pods, api), "no pod")
    kept = await api.get("PersistentVolumeClaim", CLAIM)
    assert kept
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]

    await api.delete("GaudiInference", "tiny")
    await until(partial(gone, api), "the PVC to be gone", seconds=60)


async def test_pods_are_told_which_revisions_are_kept(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", recipeCache=SHARED, replicas=0, rollout={"revisionHistoryLimit": 1}))
    (first,) = await until(partial(told, api), "the first revision")
    await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"maxAgeDays": 2}}})
    both = await until(partial(told, api, but=first), "the second revision")
    assert first in both

    async def forgotten() -> bool:
        """Whether the first revision is no longer told."""
        return first not in (await told(api) or both)

    await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"maxAgeDays": 3}}})
    await until(forgotten, "the first revision to be forgotten")


async def test_switched_off_cache_takes_its_claim_away(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", recipeCache=SHARED, replicas=0))
    await until(partial(claim, api, "1Gi"), "the PVC")
    await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"enabled": False}}})
    await until(partial(gone, api), "the PVC to be gone")


async def test_retained_claim_outlives_its_resource_and_serves_the_next(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    shared = {**SHARED, "retentionPolicy": "Retain"}
    await api.create(gaudi_inference("tiny", recipeCache=shared))
    made = await until(partial(claim, api, "1Gi"), "the PVC")
    await until(partial(ready, api), "the resource to be Ready")
    await api.delete("GaudiInference", "tiny")
    await until(partial(no_pods, api), "no pod")
    await api.create(gaudi_inference("tiny", recipeCache=shared))
    await until(partial(ready, api), "the next resource to be Ready")
    kept = await api.get("PersistentVolumeClaim", CLAIM)
    assert kept
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
