"""The readiness gate of a running pod: opens at the thresholds, closes below them, and stays without an operator."""

from functools import partial

from gaudi_operator.core.names import GATE, NAME_LABEL
from gaudi_runtime.contract.report import Phase
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import (
    all_running,
    container_ready,
    gate,
    is_open,
    pod_ready,
    ready,
    running,
    shows_captured,
    shows_recompiles,
)
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

THRESHOLDS = {"minCapturedPromptPercent": 50, "minCapturedDecodePercent": 100}


async def test_gate_opens_only_when_the_thresholds_are_reached(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await api.create(gaudi_inference("tiny", readiness=THRESHOLDS))
    pod = await running(api, kubelet)
    runtime = kubelet.runtime(pod)
    for prompt, decode, phase in ((5, 10, Phase.CAPTURING), (4, 10, Phase.SERVING), (5, 9, Phase.SERVING)):
        runtime.captured(prompt, decode, phase)
        await until(partial(shows_captured, api, prompt, decode), f"{prompt}0 % and {decode}0 % in the status")
        assert not is_open(await api.get("Pod", pod))
    runtime.captured(5, 10, Phase.SERVING)
    await until(partial(gate, api, pod, "True"), "the gate to open")
    await until(partial(ready, api), "the resource to be Ready")


async def test_message_of_open_gate_names_container_id_and_plan_hash(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    pod = await running(api, kubelet)
    condition = await until(partial(gate, api, pod, "True"), "the gate to open")
    runtime = kubelet.runtime(pod)
    assert runtime.container_id in condition["message"]
    assert runtime.report.plan_hash in condition["message"]


async def test_gates_open_when_pods_outnumber_poll_slots(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator(report_connections=2):
        await api.create(gaudi_inference("tiny", replicas=8))
        await until(partial(ready, api), "all eight replicas to be Ready")


async def test_gate_write_keeps_the_conditions_of_the_kubelet(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    pod = await running(api, kubelet)
    await until(partial(pod_ready, api, pod), "the pod to be Ready")
    types = {each["type"] for each in (await api.get("Pod", pod) or {})["status"]["conditions"]}
    assert {"PodScheduled", "Initialized", "ContainersReady", "Ready", GATE} <= types


async def test_restarted_container_closes_the_gate_until_it_is_warm(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    pod = await running(api, kubelet)
    await until(partial(pod_ready, api, pod), "the pod to be Ready")
    await kubelet.restart(pod)
    runtime = kubelet.runtime(pod)
    closed = await until(partial(gate, api, pod, "False"), "the gate to close")
    assert closed["reason"] in ("ContainerRestarted", "NotServing")
    runtime.warm()
    opened = await until(partial(gate, api, pod, "True"), "the gate to open again")
    assert runtime.container_id in opened["message"]
    await until(partial(pod_ready, api, pod), "the pod to be Ready again")


async def test_gate_closes_when_captured_graphs_fall_below_the_threshold(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", readiness=THRESHOLDS))
    pod = await running(api, kubelet)
    await until(partial(gate, api, pod, "True"), "the gate to open")
    kubelet.runtime(pod).captured(3, 10, Phase.SERVING)
    closed = await until(partial(gate, api, pod, "False"), "the gate to close")
    assert "3 of 10 prompt graphs" in closed["message"]


async def test_lowered_threshold_opens_the_gate_without_a_restart(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = lambda runtime: runtime.captured(5, 10, Phase.SERVING)
    await api.create(gaudi_inference("tiny", readiness={"minCapturedPromptPercent": 100}))
    pod = await running(api, kubelet)
    await until(partial(shows_captured, api, 5, 10), "50 % in the status")
    assert not is_open(await api.get("Pod", pod))
    await api.merge("GaudiInference", "tiny", {"spec": {"readiness": THRESHOLDS}})
    await until(partial(gate, api, pod, "True"), "the gate to open")
    assert [each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)] == [pod]
    assert len(await api.list("ControllerRevision")) == 1


async def test_gate_of_a_recompiling_pod_closes_until_it_recovers(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    closing = {"onRecompiles": "CloseGate", "maxRecentRecompiles": 2}
    await api.create(gaudi_inference("tiny", replicas=2, readiness=closing, rollout={"maxUnavailable": 1}))
    hot, calm = await until(partial(all_running, api, kubelet, 2), "two pods")
    for pod in (calm, hot):
        await until(partial(pod_ready, api, pod), f"pod {pod} to be Ready")
    kubelet.runtime(hot).update(recent_recompiles=4)
    closed = await until(partial(gate, api, hot, "False"), "the pod's gate to close")
    assert (closed["reason"], closed["message"][:30]) == ("Recompiling", "Requests waited for 4 compiles")
    kubelet.runtime(calm).update(recent_recompiles=3, recompiles_since_ready=3)
    await until(partial(shows_recompiles, api, 3), "the other pod's recompiles in the status")
    assert is_open(await api.get("Pod", calm))
    kubelet.runtime(hot).update(recent_recompiles=0)
    await until(partial(pod_ready, api, hot), "the first pod to be Ready again")


async def test_gates_keep_their_state_without_an_operator(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await api.create(gaudi_inference("tiny", replicas=2))
    first, second = await until(partial(all_running, api, kubelet, 2), "two pods")
    kubelet.runtime(first).warm()
    await until(partial(pod_ready, api, first), "the first pod to be Ready")
    await operator.kill()
    kubelet.runtime(second).warm()
    await until(partial(container_ready, api, second), "the second container to be ready")
    assert not is_open(await api.get("Pod", second))
    assert await pod_ready(api, first)
    await operator.start()
    await until(partial(pod_ready, api, second), "the second pod to be Ready")
    assert await pod_ready(api, first)


async def test_unreachable_pod_keeps_its_gate(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    pod = await running(api, kubelet)
    await until(partial(pod_ready, api, pod), "the pod to be Ready")
    await kubelet.runtime(pod).stop()

    async def polled_three_times() -> bool:
        return (await operator.samples("gaudi_operator_reports_total")).get((("outcome", "unreachable"),), 0) >= 3

    await until(polled_three_times, "three failed polls")
    assert is_open(await api.get("Pod", pod))
