"""Back-off of pods that fail repeatedly, and detection of a stalled warm-up."""

from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.report import Phase
from tests.cluster.pods import ready, running, stalled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess


async def test_rejected_pods_are_retried_with_back_off_until_they_serve(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start, kubelet.refuses = FakeRuntime.warm, lambda _: True
    await api.create(gaudi_inference("tiny", replicas=2, rollout={"obstacleDeadlineSeconds": 1}))
    row = await until(partial(reported_back_off, api), "a back-off after two tries in the status", seconds=60)
    kubelet.refuses = lambda _: False
    await until(partial(ready, api), "the next try to serve", seconds=60)
    pods = await api.list("Pod", NAME_LABEL)
    failed = [each for each in pods if each["status"]["phase"] == "Failed"]
    # A pod that did not fail must not be older than `until`. The test compares all such pods, because the number of
    # failed pods depends on how soon the operator reacted. Times in the cluster are whole seconds, so equal times are
    # allowed.
    assert min(each["metadata"]["creationTimestamp"] for each in pods if each not in failed) >= row["until"]
    (served,) = (await api.get("GaudiInference", "tiny"))["status"]["revisions"]
    assert "backOff" not in served
    assert served["lastTermination"]["message"] == "UnexpectedAdmissionError: Allocate failed."


async def test_stalled_warm_up_is_detected_if_the_report_never_changes(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = lambda runtime: runtime.update(phase=Phase.COMPILING)
    await api.create(gaudi_inference("tiny", warmup={"stallTimeoutSeconds": 3}))
    runtime = kubelet.runtime(await running(api, kubelet))
    # The change of `since_progress_seconds` alone does not make the runtime publish a new report. The operator reads
    # the new value when its long-poll request ends.
    runtime.report = runtime.report.model_copy(update={"since_progress_seconds": 4.0})
    await until(partial(stalled, api, "WarmupStalled"), "the stall to be reported", seconds=30)


async def reported_back_off(api: KubeApi) -> Object | None:
    """Return the only revision's back-off after two or more failures.

    Return None while a pod runs or may be created.
    """
    sets = await api.list("ReplicaSet", NAME_LABEL)
    if any(each["status"].get("observedGeneration") != each["metadata"]["generation"] for each in sets):
        return None  # its controller may still create a pod
    if any(each["status"]["phase"] != "Failed" for each in await api.list("Pod", NAME_LABEL)):
        return None
    resource = await api.get("GaudiInference", "tiny")
    row: Object = resource.get("status", {}).get("revisions", [{}])[0].get("backOff", {"failures": 0})
    stalled = condition_of(resource, "Stalled")
    if row["failures"] < 2 or stalled.get("reason") != "PodsFail":
        return None
    message: str = stalled["message"]
    facts = ("UnexpectedAdmissionError: Allocate failed.", f"{row['failures']} attempts", f"at {row['until']}.")
    return row if all(each in message for each in facts) else None
