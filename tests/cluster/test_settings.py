"""Engine settings. A wrong setting stalls the resource until the setting is fixed. An ignored setting is reported."""

from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.pods import pod_ready, ready, running, stalled
from tests.cluster.test_events_and_metrics import events_with
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess


async def test_wrong_setting_stalls_until_it_is_fixed(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", engine={"settings": {"OMP_NUM_TREADS": 2}}))
    condition = await until(partial(stalled, api, "SettingsWrong"), "the resource to be Stalled")
    assert condition["message"].startswith("spec.engine.settings: OMP_NUM_TREADS ")
    assert " OMP_NUM_THREADS " in condition["message"]
    assert await api.list("Pod") == []
    fixed = {"OMP_NUM_TREADS": None, "OMP_NUM_THREADS": 2}
    await api.merge("GaudiInference", "tiny", {"spec": {"engine": {"settings": fixed}}})
    await until(partial(ready, api), "the resource to be Ready")
    pod = await api.get("Pod", await running(api, kubelet))
    assert pod
    assert {"name": "OMP_NUM_THREADS", "value": "2"} in pod["spec"]["containers"][0]["env"]


async def test_ignored_setting_is_reported_and_pods_still_serve(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", engine={"settings": {"VLLM_DEFRAG_THRESHOLD": 8}}))
    await until(partial(ready, api), "the resource to be Ready")
    resource: Object = await api.get("GaudiInference", "tiny") or {}
    condition = condition_of(resource, "SettingsEffective")
    assert condition["reason"] == "SettingsIgnored"
    assert condition["message"].startswith("spec.engine.settings VLLM_DEFRAG_THRESHOLD is ignored by the torch engine")
    (event,) = await until(partial(events_with, api, "SettingsIgnored"), "the event SettingsIgnored")
    assert event["type"] == "Warning"


async def test_missing_config_map_key_stalls_until_it_is_added(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    named = {"configMapKeyRef": {"name": "buckets", "key": "list"}}
    awaited = {"rollout": {"progressDeadlineSeconds": 1}}
    await api.create(gaudi_inference("tiny", bucketing={"strategy": "File", "fileFrom": named}, **awaited))
    await until(partial(stalled, api, "ConfigMapKeyMissing"), "the missing key to be reported")
    text = "(1, 256, 0)\n(4, 1, 8)\n(4, 1, 64)\n"
    metadata = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "buckets"}}
    await api.create({**metadata, "data": {"list": text}})
    # Change the resource to trigger a reconcile. The operator does not watch ConfigMaps of users, and would read this
    # ConfigMap only after five minutes.
    await api.merge("GaudiInference", "tiny", {"metadata": {"annotations": {"touched": "now"}}})
    await until(partial(ready, api), "the resource to be Ready", seconds=60)
    (revision,) = await api.list("ControllerRevision", NAME_LABEL)
    assert revision["data"]["inputs"]["bucketing"]["file"] == text
    await api.delete("ConfigMap", "buckets")
    await api.merge("GaudiInference", "tiny", {"metadata": {"annotations": {"touched": "again"}}})
    await until(partial(stalled, api, "ConfigMapKeyMissing"), "the missing key to be reported again")
    assert await pod_ready(api, await running(api, kubelet))
