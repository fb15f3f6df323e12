"""Engine settings. A wrong setting stalls the resource until the setting is fixed. An ignored setting is reported."""

from functools import partial

from tests.cluster.pods import ready, running, stalled
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
    assert condition["message"].startswith("spec.engine.settings VLLM_DEFRAG_THRESHOLD is ignored by the vllm engine")
    (event,) = await until(partial(events_with, api, "SettingsIgnored"), "the event SettingsIgnored")
    assert event["type"] == "Warning"
