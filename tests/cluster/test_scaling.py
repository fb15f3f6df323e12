"""Scaling through the scale subresource, with the real ReplicaSet controller and the real disruption controller."""

from functools import partial

from gaudi_operator.core.names import DELETION_COST_ANNOTATION, NAME_LABEL
from gaudi_runtime.contract.report import RequestCountsReport
from tests.cluster.pods import only_child, ready
from tests.cluster.test_rollout import revisions, shows
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.metrics import BEHAVIOR, METRICS, running_requests
from tests.support.operator_process import OperatorProcess


async def test_scale_down_removes_the_pod_with_the_fewest_requests(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=3))
    await until(partial(ready, api), "the resource to be Ready")
    names = sorted(await not_terminating(api))
    for name, running in zip(names, (5, 0, 2), strict=True):
        runtime = kubelet.runtime(name)  # not reported, so only a new poll finds it
        runtime.report = runtime.report.model_copy(update={"requests": RequestCountsReport(running=running)})
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}}, "scale")
    await until(partial(ready, api), "the resource to be Ready again")
    pods = await not_terminating(api)
    assert sorted(pods) == [names[0], names[2]]
    assert not [name for name, pod in pods.items() if DELETION_COST_ANNOTATION in pod["metadata"]["annotations"]]


async def test_autoscaler_is_created_and_deleted_with_its_field(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    autoscaling = {"maxReplicas": 3, "metrics": [running_requests(2000)]}
    await api.create(gaudi_inference("tiny", autoscaling=autoscaling))
    created = await until(partial(only_child, api, "HorizontalPodAutoscaler"), "the autoscaler")
    await api.merge("HorizontalPodAutoscaler", "tiny", {"spec": {"maxReplicas": 9}})

    async def repaired() -> bool:
        found = await api.get("HorizontalPodAutoscaler", "tiny")
        return found is not None and found["spec"] == created["spec"]

    await until(repaired, "the autoscaler to be as before")
    await api.merge("GaudiInference", "tiny", {"spec": {"autoscaling": None}})

    async def gone() -> bool:
        return await api.get("HorizontalPodAutoscaler", "tiny") is None

    await until(gone, "the autoscaler to be gone")


async def test_autoscaler_with_every_metric_is_written_once(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    autoscaling = {"maxReplicas": 3, "metrics": METRICS, "behavior": BEHAVIOR}
    await api.create(gaudi_inference("tiny", replicas=1, autoscaling=autoscaling))
    written = await until(partial(only_child, api, "HorizontalPodAutoscaler"), "the autoscaler")
    await until(partial(ready, api), "the resource to be Ready")
    for replicas in (2, 3):
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": replicas}}, "scale")
        await until(partial(ready, api), f"{replicas} replicas to be Ready")
    found = await api.get("HorizontalPodAutoscaler", "tiny")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


async def test_disruption_budget_counts_the_pods_after_every_scaling(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=1))
    for replicas, stay, may_go in ((1, 0, 1), (3, 2, 1), (0, 0, 0)):
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": replicas}}, "scale")

        async def counted(stay: int = stay, may_go: int = may_go) -> bool:
            budget = await api.get("PodDisruptionBudget", "tiny") or {}
            status = budget.get("status") or {}
            is_known = status.get("observedGeneration") == budget.get("metadata", {}).get("generation")
            return is_known and (status.get("desiredHealthy"), status.get("disruptionsAllowed")) == (stay, may_go)

        await until(counted, f"the budget of {replicas} replicas")


async def not_terminating(api: KubeApi) -> dict[str, Object]:
    """Return the pods that are not terminating, by name."""
    pods = await api.list("Pod", NAME_LABEL)
    return {pod["metadata"]["name"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}


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
    await until(partial(shows, api, "ScaledToZero"), "the reason ScaledToZero")
    assert not await api.list("Pod", NAME_LABEL)
    assert await ready(api)
