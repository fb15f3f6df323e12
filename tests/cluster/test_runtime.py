"""The configuration and the reports that the operator exchanges with a real runtime process."""

from functools import partial
from pathlib import Path

import pytest

from tests.cluster.pods import captured_percent, gate, gate_watched, pod_ready, ready, running, stalled
from tests.support.builders import gaudi_inference
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.real_runtime import real_runtime


@pytest.fixture
def real_kubelet(api: KubeApi, kubelet: Kubelet, tmp_path: Path) -> Kubelet:
    """A kubelet whose containers are real runtime processes."""
    kubelet.make_runtime = partial(real_runtime, api, tmp_path)
    return kubelet


def simulated(**script: str) -> Object:
    """Return a resource with the sim engine, which follows `script`."""
    return gaudi_inference("tiny", engine={"name": "sim", "settings": script})


async def test_real_runtime_warms_up_and_its_gate_opens(
    api: KubeApi, real_kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await api.create(simulated(compileSeconds="0.02", captureSeconds="0.02"))
    await until(partial(ready, api), "the resource to be Ready", seconds=60)
    assert await captured_percent(api) == {"prompt": 100, "decode": 100}
    assert ((await api.get("GaudiInference", "tiny")) or {})["status"]["plan"]["basis"] == "Simulated"


async def test_killed_runtime_closes_the_gate_and_warms_up_again(
    api: KubeApi, real_kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await api.create(simulated(compileSeconds="0.02", captureSeconds="0.02"))
    pod = await running(api, real_kubelet)
    await until(partial(pod_ready, api, pod), "the pod to be Ready", seconds=60)
    async with gate_watched(api, pod) as seen:
        runtime = await real_kubelet.restart(pod)
        await until(
            partial(_equals, seen, ["True", "False", "True"]), "the gate to close and to open again", seconds=60
        )
    assert runtime.container_id in (await gate(api, pod, "True") or {})["message"]


async def test_failed_start_is_reported_with_the_reason_of_the_runtime(
    api: KubeApi, real_kubelet: Kubelet, operator: OperatorProcess
) -> None:
    await api.create(simulated(failLoad="ModelNotFound"))
    await until(partial(stalled, api, "ModelNotFound"), "the resource to be Stalled", seconds=60)


async def _equals(seen: list[str], desired: list[str]) -> bool:
    return seen == desired
