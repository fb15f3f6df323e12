"""Policies whose plans take seconds, policies that are refused, and malformed foreign objects.

Another resource keeps serving.
"""

import asyncio
import json
from functools import partial
from pathlib import Path

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import Kubectl, NewOperator
from tests.cluster.pods import ready
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.unit.operator.hostile.specs import ACCEPTED, STAIRCASES

LEVELS = 5_000

SEARCH = ACCEPTED["optimal for 512 prompts at a time"]
"""A plan that takes seconds of processor time, which the operator must not compute."""


async def refused(api: KubeApi, name: str) -> Object | None:
    """Return the condition PlanAccepted if it is False."""
    condition = condition_of(await api.get("GaudiInference", name), "PlanAccepted")
    return condition if condition.get("status") == "False" else None


async def accepted(api: KubeApi, name: str) -> bool:
    """Return whether the condition PlanAccepted is True."""
    return condition_of(await api.get("GaudiInference", name), "PlanAccepted").get("status") == "True"


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


async def test_expensive_policies_do_not_delay_others(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator() as operator:
        pid = operator.pid
        for number in range(3):
            await api.create(gaudi_inference(f"search-{number}", **SEARCH, replicas=0))
        await api.create(gaudi_inference("staircases", **STAIRCASES))
        await api.create(gaudi_inference("tiny", replicas=2))
        await until(partial(ready, api), "the other resource to be Ready", seconds=60)
        for number in range(3):
            await until(partial(accepted, api, f"search-{number}"), "the accepted policy", seconds=60)
        condition = await until(partial(refused, api, "staircases"), "the refusal", seconds=60)
        assert condition["reason"] == "PlanImpossible"
        assert "the file has more than 1000 lines with buckets" in condition["message"]
        assert peak_memory(pid) < 256
        assert operator.running
        assert operator.pid == pid
        assert not [line for line in operator.lines() if "exception" in line], "the operator logged a defect"


async def test_watches_continue_after_a_deeply_nested_object(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator, kubectl: Kubectl
) -> None:
    kubelet.on_start = FakeRuntime.warm
    deep = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "deep", "labels": {NAME_LABEL: "tiny"}},
        "revision": 1,
        "data": "placeholder",
    }
    text = json.dumps(deep).replace('"placeholder"', '{"a":' * LEVELS + "1" + "}" * LEVELS)
    async with new_operator() as operator:
        await api.create(gaudi_inference("tiny"))
        await until(partial(ready, api), "the resource to be Ready")
        pid = operator.pid
        await asyncio.to_thread(kubectl, "create", "--validate=false", "-f", "-", stdin=text)
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}})
        await until(partial(ready, api), "the watches to go on")
        assert operator.pid == pid
        # Restart the operator. A new leader reads the hostile object from its first list. The old leader received the
        # object from a watch.
        await operator.terminate()
        await operator.start()
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 1}})
        await until(partial(ready, api), "the new leader to work")
        assert operator.running
        assert not [line for line in operator.lines() if "exception" in line], "the operator logged a defect"
