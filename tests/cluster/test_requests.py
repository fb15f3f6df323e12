"""What a resource asks of the API server in its life, as the operator's own metric counts it on a real one."""

from collections import Counter
from functools import partial

import pytest

from tests.cluster.pods import leads, pod_ready, ready, running
from tests.cluster.test_telling import told
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

CHILDREN = {
    "patch controllerrevisions": 1,
    "patch serviceaccounts": 1,
    "patch configmaps": 1,
    "patch networkpolicies": 1,
    "patch poddisruptionbudgets": 1,
    "patch services": 1,
    "patch replicasets": 1,
}
STATUS = "patch gaudiinferences/status"
Counted = Counter[str]


async def asked(operator: OperatorProcess) -> Counted:
    """Requests so far by verb and resource, but for watches, lists and the Lease."""
    samples = await operator.samples("gaudi_operator_api_requests_total")
    found = Counted()
    for key, value in samples.items():
        labels = dict(key)
        if labels["verb"] in ("create", "update", "patch", "delete", "get") and labels["resource"] != "leases":
            found[f"{labels['verb']} {labels['resource']}"] += int(value)
    return found


class Spent:
    """What was asked since it was made."""

    def __init__(self, operator: OperatorProcess, before: Counted) -> None:
        """`before` is what had been asked by then."""
        self._operator, self._before = operator, before

    async def so_far(self) -> Counted:
        """By verb and resource."""
        return await asked(self._operator) - self._before


async def since(operator: OperatorProcess) -> Spent:
    """Count from now on."""
    return Spent(operator, await asked(operator))


@pytest.fixture
async def leader(operator: OperatorProcess) -> OperatorProcess:
    """An operator that has made its start."""
    await until(partial(leads, operator), "the operator to lead")
    await until(partial(_answers, operator), "the first lists")
    return operator


async def test_new_resource_costs_its_children_and_two_statuses(api: KubeApi, leader: OperatorProcess) -> None:
    spent = await since(leader)
    await api.create(gaudi_inference())
    await until(partial(_shows_pods, api, 1), "the status to show the pod")
    await until(partial(told, api, "RevisionDesired"), "the event")
    counted = await spent.so_far()
    assert counted.pop(STATUS) <= 2
    assert counted == {**CHILDREN, "create events": 1}


async def test_resource_that_becomes_ready_costs_three_requests(
    api: KubeApi, kubelet: Kubelet, leader: OperatorProcess
) -> None:
    await api.create(gaudi_inference())
    pod = await running(api, kubelet)
    await until(partial(_shows_phase, api, "Starting"), "the status to show the start")
    spent = await since(leader)
    kubelet.runtime(pod).warm()
    await until(partial(pod_ready, api, pod), "the pod to be Ready")
    await until(partial(ready, api), "the resource to be Ready")
    (event,) = await until(partial(told, api, "Ready"), "the event Ready")
    assert await spent.so_far() == {"patch pods/status": 1, STATUS: 1, "create events": 1}
    assert f"Pod {pod}: 10 of 10 prompt graphs captured" in event["note"]


async def test_change_costs_six_requests_until_the_canary_is_shown(
    api: KubeApi, kubelet: Kubelet, leader: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference())
    await until(partial(ready, api), "the resource to be Ready")
    kubelet.schedulable = lambda _: False
    spent = await since(leader)
    await api.merge("GaudiInference", "tiny", {"spec": {"engine": {"maxNumSeqs": 5}}})
    await until(partial(_shows_pods, api, 2), "the status to show the canary")
    await until(partial(_told_twice, api), "the event")
    counted = await spent.so_far()
    assert counted.pop(STATUS) <= 2
    assert counted == {
        "patch controllerrevisions": 1,
        "patch configmaps": 1,
        "patch replicasets": 1,
        "create events": 1,
    }


async def _answers(operator: OperatorProcess) -> bool:
    return (await operator.get("/readyz")).status_code == 200


async def _told_twice(api: KubeApi) -> bool:
    return len(await told(api, "RevisionDesired")) == 2


async def _shows_pods(api: KubeApi, count: int) -> bool:
    status = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return len(status.get("pods") or ()) == count


async def _shows_phase(api: KubeApi, phase: str) -> bool:
    status = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return [each["phase"] for each in status.get("pods") or ()] == [phase]
