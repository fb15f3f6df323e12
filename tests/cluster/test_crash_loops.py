"""Pods that end again and again are made ever more seldom, and a warm-up that stands still is found out in time."""

from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.report import Phase
from tests.cluster.pods import ready, running, stalled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess


async def test_pods_a_node_refuses_serve_later_without_a_hot_loop(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start, kubelet.refuses = FakeRuntime.warm, lambda _: True
    await api.create(gaudi_inference("tiny", replicas=2, rollout={"progressDeadlineSeconds": 1}))
    row = await until(partial(told_pause, api), "a pause after two tries that users are told of", seconds=60)
    kubelet.refuses = lambda _: False
    await until(partial(ready, api), "the next try to serve", seconds=60)
    pods = await api.list("Pod", NAME_LABEL)
    failed = [each for each in pods if each["status"]["phase"] == "Failed"]
    # How many the ReplicaSet made before that depends on how soon we were heard: their times are whole seconds.
    assert min(each["metadata"]["creationTimestamp"] for each in pods if each not in failed) >= row["until"]
    (served,) = (await api.get("GaudiInference", "tiny"))["status"]["revisions"]
    assert "backOff" not in served
    assert served["lastError"]["message"] == "UnexpectedAdmissionError: Allocate failed."


async def test_standstill_is_seen_although_the_pod_has_no_news(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = lambda runtime: runtime.tell(phase=Phase.COMPILING)
    await api.create(gaudi_inference("tiny", warmup={"stallTimeoutSeconds": 3}))
    runtime = kubelet.runtime(await running(api, kubelet))
    # It grows older without news: only the end of a long-poll shows it.
    runtime.report = runtime.report.model_copy(update={"since_progress_seconds": 4.0})
    await until(partial(stalled, api, "WarmupStalled"), "the standstill to be seen", seconds=30)


async def told_pause(api: KubeApi) -> Object | None:
    """The back-off of the only revision after two tries or more, when its pods are gone and users read why."""
    sets = await api.list("ReplicaSet", NAME_LABEL)
    if any(each["status"].get("observedGeneration") != each["metadata"]["generation"] for each in sets):
        return None  # its controller may still make a pod
    if any(each["status"]["phase"] != "Failed" for each in await api.list("Pod", NAME_LABEL)):
        return None
    resource = await api.get("GaudiInference", "tiny")
    row: Object = resource.get("status", {}).get("revisions", [{}])[0].get("backOff", {"failures": 0})
    stalled = condition_of(resource, "Stalled")
    if row["failures"] < 2 or stalled.get("reason") != "PodsFail":
        return None
    said: str = stalled["message"]
    facts = ("UnexpectedAdmissionError: Allocate failed.", f"{row['failures']} tries", f"before {row['until']}.")
    return row if all(each in said for each in facts) else None
