"""The number of API requests in the life of a resource, counted by the operator's metric on a real API server."""

import time
from collections import Counter
from functools import partial

import pytest

from gaudi_operator.core.status.status_builder import STATUS_DELAY_SECONDS
from tests.cluster.pods import leads, ready, running
from tests.cluster.test_events_and_metrics import events_with
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


async def count_requests(operator: OperatorProcess) -> Counted:
    """Return the number of requests so far by verb and resource.

    Watches, lists and requests for the Lease do not count.
    """
    samples = await operator.samples("gaudi_operator_api_requests_total")
    found = Counted()
    for key, value in samples.items():
        labels = dict(key)
        if labels["verb"] in ("create", "update", "patch", "delete", "get") and labels["resource"] != "leases":
            found[f"{labels['verb']} {labels['resource']}"] += int(value)
    return found


class RequestCounter:
    """A counter of the requests since the counter was created."""

    def __init__(self, operator: OperatorProcess, before: Counted) -> None:
        """Store the operator and `before`, the counts at creation."""
        self._operator, self._before = operator, before

    async def so_far(self) -> Counted:
        """Return the number of requests since creation, by verb and resource."""
        return await count_requests(self._operator) - self._before


async def count_from_now(operator: OperatorProcess) -> RequestCounter:
    """Return a counter that starts now."""
    return RequestCounter(operator, await count_requests(operator))


@pytest.fixture
async def leader(operator: OperatorProcess) -> OperatorProcess:
    """An operator that is the leader and has listed all kinds."""
    await until(partial(leads, operator), "the operator to lead")
    await until(partial(_has_listed, operator), "the first lists")
    return operator


async def test_new_resource_takes_its_children_and_two_status_writes(api: KubeApi, leader: OperatorProcess) -> None:
    spent = await count_from_now(leader)
    await api.create(gaudi_inference())
    await until(partial(_shows_pods, api, 1), "the status to show the pod")
    await until(partial(events_with, api, "RevisionDesired"), "the event")
    counted = await spent.so_far()
    assert counted.pop(STATUS) <= 2
    assert counted == {**CHILDREN, "create events": 1}


async def test_resource_that_becomes_ready_takes_three_requests(
    api: KubeApi, kubelet: Kubelet, leader: OperatorProcess
) -> None:
    await api.create(gaudi_inference())
    pod = await running(api, kubelet)
    await until(partial(_shows_phase, api, "Starting"), "the status to show the start")
    spent = await count_from_now(leader)
    began = time.monotonic()
    kubelet.runtime(pod).warm()
    await until(partial(ready, api), "the resource to be Ready")
    soon = time.monotonic() - began < STATUS_DELAY_SECONDS
    (event,) = await until(partial(events_with, api, "Ready"), "the event Ready")
    counted = await spent.so_far()
    # On a busy machine, the pod may become Ready after the delay of status writes. The status then shows `WarmedUp`
    # first, which needs a second status write and a second event.
    assert counted in ([shown(1)] if soon else [shown(1), shown(2)])
    if counted == shown(1):
        assert f"Pod {pod}: 10 of 10 prompt graphs captured" in event["note"]


def shown(times: int) -> Counted:
    """Return the requests for one gate change that causes `times` status writes, each with an event."""
    return Counted({"patch pods/status": 1, STATUS: times, "create events": times})


async def test_spec_change_takes_six_requests_until_status_has_canary(
    api: KubeApi, kubelet: Kubelet, leader: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference())
    await until(partial(ready, api), "the resource to be Ready")
    kubelet.schedulable = lambda _: False
    spent = await count_from_now(leader)
    await api.merge("GaudiInference", "tiny", {"spec": {"engine": {"maxNumSeqs": 5}}})
    await until(partial(_shows_pods, api, 2), "the status to show the canary")
    await until(partial(_has_two_events, api), "the event")
    counted = await spent.so_far()
    assert counted.pop(STATUS) <= 2
    assert counted == {
        "patch controllerrevisions": 1,
        "patch configmaps": 1,
        "patch replicasets": 1,
        "create events": 1,
    }


async def _has_listed(operator: OperatorProcess) -> bool:
    return (await operator.get("/readyz")).status_code == 200


async def _has_two_events(api: KubeApi) -> bool:
    return len(await events_with(api, "RevisionDesired")) == 2


async def _shows_pods(api: KubeApi, count: int) -> bool:
    status = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return len(status.get("pods") or ()) == count


async def _shows_phase(api: KubeApi, phase: str) -> bool:
    status = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return [each["phase"] for each in status.get("pods") or ()] == [phase]
