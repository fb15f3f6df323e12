"""Two installations in one cluster, separated by watched namespaces or by classes."""

from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import NewClass, NewOperator
from tests.cluster.pods import pod_ready, ready
from tests.cluster.test_requests import count_requests
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

OTHER = "example.com/other-installation"


async def test_each_installation_reconciles_only_its_watched_namespaces(
    api: KubeApi, other_api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    there = other_api.namespace
    async with new_operator() as mine, new_operator(namespace=there, watch_namespaces=there) as other:
        async with Kubelet(other_api) as other_kubelet:
            for where, plays in ((api, kubelet), (other_api, other_kubelet)):
                plays.on_start = FakeRuntime.warm
                await where.create(gaudi_inference())
            for where in (api, other_api):
                await until(partial(ready, where), f"the resource in {where.namespace} to be Ready")
        await _assert_each_reconciled_one(mine, other)
        assert [await each.value("gaudi_operator_resources") for each in (mine, other)] == [1, 1]


async def test_each_installation_reconciles_only_classes_of_its_controller(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    ours, theirs = new_class("ours"), new_class("theirs", controller=OTHER)
    async with new_operator() as mine, new_operator(controller=OTHER, lease_name="other") as other:
        await api.create(gaudi_inference("mine", className=ours))
        await api.create(gaudi_inference("other", className=theirs))
        for name in ("mine", "other"):
            await until(partial(ready, api, name), f"{name} to be Ready")
        await _assert_each_reconciled_one(mine, other)
    assert len(await api.list("ReplicaSet", NAME_LABEL)) == len(await api.list("Pod", NAME_LABEL)) == 2


async def test_resource_with_a_missing_class_stays_with_its_installation(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    theirs = new_class("theirs", controller=OTHER)
    async with new_operator() as mine, new_operator(controller=OTHER, lease_name="other") as other:
        await api.create(gaudi_inference(className=theirs))
        await until(partial(ready, api), "the resource to be Ready")
        await api.merge("GaudiInference", "tiny", {"spec": {"className": "missing"}})
        await until(partial(_is_class_missing, api), "the missing class to be reported")
        (pod,) = kubelet.runtimes
        await api.delete("Pod", pod)
        successor = await until(partial(_successor, kubelet, pod), "the successor of the deleted pod")
        await until(partial(pod_ready, api, successor), "the successor to take traffic")
        assert (await count_requests(other))["patch pods/status"] == 2
        written = await count_requests(mine)
        assert not [name for name in written if name.startswith(("patch ", "delete "))], written


async def _is_class_missing(api: KubeApi) -> bool:
    return condition_of(await api.get("GaudiInference", "tiny"), "Ready").get("reason") == "ClassMissing"


async def _successor(kubelet: Kubelet, pod: str) -> str | None:
    return next(iter(kubelet.runtimes.keys() - {pod}), None)


async def _assert_each_reconciled_one(*operators: OperatorProcess) -> None:
    """Assert that each operator created one workload, opened one gate, and had no write conflict."""
    for operator in operators:
        counted = await count_requests(operator)
        assert (counted["patch replicasets"], counted["patch pods/status"]) == (1, 1)
        codes = {dict(key)["code"] for key in await operator.samples("gaudi_operator_api_requests_total")}
        assert "409" not in codes
