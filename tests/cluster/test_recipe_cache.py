"""The PVC of the recipe cache on a real API server: creation, mount, growth, scale to zero and deletion."""

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
SHARED: dict[str, Any] = {"size": "1Gi", "storageClassName": "fast"}


async def claim(api: KubeApi, size: str) -> Object | None:
    """Return the PVC if it requests this size."""
    found = await api.get("PersistentVolumeClaim", CLAIM)
    return found if found and found["spec"]["resources"]["requests"]["storage"] == size else None


async def kept_revisions(api: KubeApi, but: str | None = None) -> tuple[str, ...]:
    """Return the revisions in kept.json.

    Return an empty tuple if the revisions differ from the history or are only `but`.
    """
    found = await api.get("ConfigMap", CLAIM)
    kept = KeptRevisions.model_validate_json(found["data"]["kept.json"]).revisions if found else ()
    stored = [each["metadata"]["labels"][REVISION_LABEL] for each in await api.list("ControllerRevision", NAME_LABEL)]
    return kept if sorted(kept) == sorted(stored) and set(kept) != {but} else ()


async def gone(api: KubeApi) -> bool:
    """Return whether the PVC does not exist."""
    return await api.get("PersistentVolumeClaim", CLAIM) is None


async def no_pods(api: KubeApi) -> bool:
    """Return whether no pod exists."""
    return not await api.list("Pod", NAME_LABEL)


async def test_recipe_claim_is_kept_until_its_resource_is_deleted(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", recipeCache=SHARED))
    created = await until(partial(claim, api, "1Gi"), "the PVC")
    assert (created["spec"]["storageClassName"], created["spec"]["accessModes"]) == ("fast", ["ReadWriteMany"])
    pod = await api.get("Pod", await running(api, kubelet))
    assert pod
    claims = [each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["spec"]["volumes"]]
    assert CLAIM in claims

    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 0}})
    await until(partial(no_pods, api), "no pod")
    kept = await api.get("PersistentVolumeClaim", CLAIM)
    assert kept
    assert kept["metadata"]["uid"] == created["metadata"]["uid"]

    await api.delete("GaudiInference", "tiny")
    await until(partial(gone, api), "the PVC to be gone", seconds=60)


async def test_pods_get_the_list_of_kept_revisions(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", recipeCache=SHARED, replicas=0, rollout={"revisionHistoryLimit": 1}))
    (first,) = await until(partial(kept_revisions, api), "the first revision")
    await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"maxAgeDays": 2}}})
    both = await until(partial(kept_revisions, api, but=first), "the second revision")
    assert first in both

    async def is_removed() -> bool:
        """Return whether kept.json no longer contains the first revision."""
        return first not in (await kept_revisions(api) or both)

    await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"maxAgeDays": 3}}})
    await until(is_removed, "the first revision to be removed")


async def test_disabled_cache_deletes_its_claim(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", recipeCache=SHARED, replicas=0))
    await until(partial(claim, api, "1Gi"), "the PVC")
    await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": None}})
    await until(partial(gone, api), "the PVC to be gone")


async def test_retained_claim_outlives_its_resource_and_is_reused(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    shared = {**SHARED, "retentionPolicy": "Retain"}
    await api.create(gaudi_inference("tiny", recipeCache=shared))
    created = await until(partial(claim, api, "1Gi"), "the PVC")
    await until(partial(ready, api), "the resource to be Ready")
    await api.delete("GaudiInference", "tiny")
    await until(partial(no_pods, api), "no pod")
    await api.create(gaudi_inference("tiny", recipeCache=shared))
    await until(partial(ready, api), "the next resource to be Ready")
    kept = await api.get("PersistentVolumeClaim", CLAIM)
    assert kept
    assert kept["metadata"]["uid"] == created["metadata"]["uid"]
