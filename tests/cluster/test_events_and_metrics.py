"""Events, metrics, and probes of the operator: a missing permission fails readiness and is named."""

import json
from functools import partial

from tests.cluster.conftest import USER, Kubectl, NewOperator
from tests.cluster.pods import all_running, gate, leads, ready, running, stalled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import grants


async def test_both_gates_and_readiness_are_reported_by_one_event_each(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await api.create(gaudi_inference("tiny", replicas=2))
    for name in await until(partial(all_running, api, kubelet, 2), "both pods"):
        kubelet.runtime(name).warm()
        await until(partial(gate, api, name, "True"), "the gate to open")
    for reason in ("RevisionDesired", "GateOpened", "Ready"):
        (event,) = await until(partial(events_with, api, reason), f"the event {reason}")
        assert event["regarding"]["kind"] == "GaudiInference"
        assert (event["type"], event["regarding"]["name"]) == ("Normal", "tiny")


async def test_repeated_events_are_counted_in_a_series(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    await until(partial(events_with, api, "Ready"), "the event Ready")
    pod = await running(api, kubelet)
    for _ in range(2):
        await kubelet.restart(pod)
        await until(partial(not_ready, api), "the resource not to be Ready")
        kubelet.runtime(pod).warm()
        await until(partial(ready, api), "the resource to be Ready again")
    events = await until(partial(events_counted, api, "Ready", 3), "three times Ready")
    # The event `Ready` has one of two notes. If a pod becomes Ready late, the operator writes a separate event
    # `WarmedUp`, and the note of `Ready` is shorter. Kubernetes counts equal notes in one event. Three occurrences
    # therefore make at most two events.
    assert len({each["note"] for each in events}) == len(events) < 3


async def test_missing_permission_fails_readyz_but_not_livez(
    api: KubeApi, kubectl: Kubectl, namespace: str, new_operator: NewOperator
) -> None:
    process = new_operator()
    role = grants(USER, namespace)[0]
    fewer = [rule for rule in role["rules"] if "networkpolicies" not in rule["resources"]]
    kubectl("apply", "-f", "-", stdin=json.dumps({**role, "rules": fewer}))
    async with process:
        await until(partial(leads, process), "the operator to lead")
        # Check the message in addition to the status code. During the first seconds, the operator is not ready for
        # another reason: it waits for the first lists.
        await until(partial(answers, process, "/readyz", 503, "cannot watch networkpolicies"), "the kind in /readyz")
        assert (await process.get("/livez")).status_code == 200
        kubectl("apply", "-f", "-", stdin=json.dumps(role))
        await until(partial(answers, process, "/readyz", 200), "the operator to be ready")


async def test_missing_permission_on_pod_status_stalls_until_granted(
    api: KubeApi, kubelet: Kubelet, kubectl: Kubectl, namespace: str, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    process = new_operator()
    role = grants(USER, namespace)[0]
    fewer = [rule for rule in role["rules"] if "pods/status" not in rule["resources"]]
    kubectl("apply", "-f", "-", stdin=json.dumps({**role, "rules": fewer}))
    async with process:
        await api.create(gaudi_inference("tiny"))
        condition = await until(partial(stalled, api, "ApiForbidden"), "the resource to be Stalled", seconds=60)
        assert "pods/status" in condition["message"]
        kubectl("apply", "-f", "-", stdin=json.dumps(role))
        await until(partial(ready, api), "the resource to be Ready", seconds=60)


async def test_metrics_count_gates_and_reconciles(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    assert await operator.value("gaudi_operator_gate_seconds_count") == 2
    assert await operator.value("gaudi_operator_resources") == 1
    assert set(await operator.samples("gaudi_operator_reconciles_total")) == {(("outcome", "done"),)}


async def events_with(api: KubeApi, reason: str) -> list[Object]:
    """Return the events with reason `reason`."""
    return [each for each in await api.list("Event") if each["reason"] == reason]


async def events_counted(api: KubeApi, reason: str, count: int) -> list[Object]:
    """Return the events with `reason` if they count `count` occurrences in total.

    An event without a series counts as one.
    """
    found = await events_with(api, reason)
    return found if sum((each.get("series") or {}).get("count", 1) for each in found) == count else []


async def not_ready(api: KubeApi) -> bool:
    """Return whether the resource is not Ready."""
    return not await ready(api)


async def answers(operator: OperatorProcess, path: str, code: int, text: str = "") -> bool:
    """Return whether the operator answers with this status code and a body that contains `text`."""
    answer = await operator.get(path)
    return answer.status_code == code and text in answer.text


async def test_metrics_show_every_resource(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))

    async def shown() -> bool:
        event_series = await operator.samples("gaudi_inference_condition")
        wanted = {"name": "tiny", "type": "Ready", "status": "True"}
        return any(wanted.items() <= dict(labels).items() for labels in event_series)

    await until(shown, "Ready among the operator's metrics")
    percent = await operator.samples("gaudi_inference_captured_percent")
    assert {dict(labels)["phase"]: value for labels, value in percent.items()} == {"prompt": 100, "decode": 100}
