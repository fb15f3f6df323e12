"""CRDs ahead of the operator: gates still open after a drain while the operator cannot read the spec."""

from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import Kubectl, NewOperator
from tests.cluster.pods import pod_ready, ready, stalled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

ENUM = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/rollout/properties/onFailure/enum"
NEWER = "OfTheFuture"


@pytest.fixture
def newer_crd(kubectl: Kubectl, crd: str) -> Iterator[None]:
    """Let the installed definition allow a value that this operator does not know."""

    def patch(step: str) -> None:
        kubectl("patch", "crd", crd, "--type=json", f"--patch=[{step}]")

    patch(f'{{"op":"add","path":"{ENUM}/-","value":"{NEWER}"}}')
    yield
    patch(f'{{"op":"test","path":"{ENUM}/2","value":"{NEWER}"}},{{"op":"remove","path":"{ENUM}/2"}}')


async def use_newer_value(api: KubeApi, value: str | None = NEWER) -> bool:
    """Write the value of the newer release, and return whether the API server already serves the newer definition."""
    try:
        await api.merge("GaudiInference", "tiny", {"spec": {"rollout": {"onFailure": value}}})
    except httpx.HTTPStatusError as refused:
        if refused.response.status_code != httpx.codes.UNPROCESSABLE_ENTITY:
            raise
        return False
    return True


async def drain(api: KubeApi) -> None:
    """Delete all pods, as an eviction does."""
    for pod in await api.list("Pod", NAME_LABEL):
        await api.delete("Pod", pod["metadata"]["name"])


async def successors(api: KubeApi, kubelet: Kubelet, drained: set[str]) -> list[str] | None:
    """Return the names of the two new pods if their containers run."""
    found = kubelet.runtimes.keys() - drained
    return sorted(found) if len(found) == 2 else None


async def shows(api: KubeApi, ready_pods: int, **expected: str) -> bool:
    """Return whether the status shows this number of ready pods, two expected pods, and these conditions."""
    found = await api.get("GaudiInference", "tiny") or {}
    counts = {name: found["status"].get(name) for name in ("readyReplicas", "expectedReadyReplicas")}
    statuses = {kind: condition_of(found, kind).get("status") for kind in expected}
    return counts == {"readyReplicas": ready_pods, "expectedReadyReplicas": 2} and statuses == expected


async def counts_lost(operator: OperatorProcess, count: int) -> bool:
    """Return whether the metric of the alert GaudiModelUnavailable counts this number of lost pods."""
    samples = await operator.samples("gaudi_inference_replicas")
    return [value for labels, value in samples.items() if ("state", "lost") in labels] == [count]


async def all_ready(api: KubeApi, pods: list[str]) -> bool:
    return all([await pod_ready(api, pod) for pod in pods])


async def test_drained_pods_are_replaced_while_the_crd_is_ahead(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, newer_crd: None
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    await until(partial(use_newer_value, api), "the newer definition to be served")
    await until(partial(stalled, api, "SpecUnreadable"), "the operator to report the value")
    kubelet.on_start, drained = lambda _: None, set(kubelet.runtimes)
    await drain(api)
    pods = await until(partial(successors, api, kubelet, drained), "two successors")
    lost = partial(shows, api, 0, Available="False", WarmedUp="False", Degraded="True", Stalled="True")
    await until(lost, "the status to show the lost pods")
    await until(partial(counts_lost, operator, 2), "the metric to count the lost pods")
    for pod in pods:
        kubelet.runtime(pod).warm()
    await until(partial(all_ready, api, pods), "both successors to take traffic")
    serving = partial(shows, api, 2, Available="True", WarmedUp="True", Degraded="False", Stalled="True")
    await until(serving, "the status to show the successors")
    await use_newer_value(api, None)
    await until(partial(ready, api), "the resource to be Ready after the correction")
    assert set(pods) == set(kubelet.runtimes)


async def test_drained_pods_are_replaced_after_a_rollback_of_the_operator(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator, newer_crd: None
) -> None:
    """The value was written while a newer operator ran. The older operator starts after the nodes were drained."""
    kubelet.on_start = FakeRuntime.warm
    async with new_operator():
        await api.create(gaudi_inference("tiny", replicas=2))
        await until(partial(ready, api), "the resource to be Ready")
    await until(partial(use_newer_value, api), "the newer definition to be served")
    drained = set(kubelet.runtimes)
    await drain(api)
    pods = await until(partial(successors, api, kubelet, drained), "two successors")
    async with new_operator():
        await until(partial(all_ready, api, pods), "both successors to take traffic")
        serving = partial(shows, api, 2, Available="True", WarmedUp="True", Degraded="False", Stalled="True")
        await until(serving, "the status to show the successors")
        assert await stalled(api, "SpecUnreadable")
    await use_newer_value(api, None)
