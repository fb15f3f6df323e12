"""Conditions that tests poll on the API server: the state of a resource, its children and its pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gaudi_operator.core.names import GATE, NAME_LABEL
from tests.support.background import Background
from tests.support.kube_api import CHILDREN, KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess


async def only_child(api: KubeApi, kind: str) -> Object | None:
    """Return the only child of a kind, or None if there is no child or more than one."""
    found = await api.list(kind, NAME_LABEL)
    return found[0] if len(found) == 1 else None


async def ready(api: KubeApi, name: str = "tiny") -> bool:
    """Return whether the resource is Ready for its current generation."""
    resource = await api.get("GaudiInference", name) or {}
    observed = (resource.get("status") or {}).get("observedGeneration")
    return condition_of(resource, "Ready").get("status") == "True" and observed == resource["metadata"]["generation"]


async def stalled(api: KubeApi, reason: str, name: str = "tiny") -> Object | None:
    """Return the condition Stalled if it is True with this reason. A new cluster may report another reason first."""
    condition = condition_of(await api.get("GaudiInference", name), "Stalled")
    return condition if condition.get("status") == "True" and condition["reason"] == reason else None


async def nothing_left(api: KubeApi) -> bool:
    """Return whether all objects with a resource's label are deleted."""
    return not [each for kind in (*CHILDREN, "Pod") for each in await api.list(kind, NAME_LABEL)]


async def running(api: KubeApi, kubelet: Kubelet) -> str:
    """Wait until the container of the only pod runs, and return the pod's name."""

    async def one() -> list[str] | None:
        return await all_running(api, kubelet, 1)

    names: list[str] = await until(one, "a pod")
    return names[0]


async def all_running(api: KubeApi, kubelet: Kubelet, count: int) -> list[str] | None:
    """Return the names of the resource's pods if exactly `count` pods run."""
    names = [each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)]
    return names if len(names) == count and all(name in kubelet.runtimes for name in names) else None


async def gate(api: KubeApi, pod: str, status: str) -> Object | None:
    """Return the pod's gate condition if the condition has `status`, and None otherwise."""
    condition = condition_of(await api.get("Pod", pod), GATE)
    return condition if condition.get("status") == status else None


@asynccontextmanager
async def gate_watched(api: KubeApi, pod: str) -> AsyncIterator[list[str]]:
    """Collect the statuses of the gate in order from now on. Polling could miss a status that changes soon."""
    seen: list[str] = []

    async def watch() -> None:
        async for event in api.watch("Pod"):
            status = condition_of(event["object"], GATE).get("status")
            if event["object"]["metadata"]["name"] == pod and status and [status] != seen[-1:]:
                seen.append(status)

    async def known() -> bool:
        return bool(seen)

    background = Background()
    background.spawn(watch())
    await until(known, "the first gate status of the watch")
    yield seen
    await background.stop()
    background.check()


def is_open(pod: Object | None) -> bool:
    """Return whether the pod's gate is open."""
    return condition_of(pod, GATE).get("status") == "True"


async def pod_ready(api: KubeApi, pod: str) -> bool:
    """Return whether the pod's condition Ready is True."""
    return condition_of(await api.get("Pod", pod), "Ready").get("status") == "True"


async def container_ready(api: KubeApi, pod: str) -> bool:
    """Return whether the pod's condition ContainersReady is True."""
    return condition_of(await api.get("Pod", pod), "ContainersReady").get("status") == "True"


async def pod_message(api: KubeApi, text: str) -> bool:
    """Return whether a pod's message in the status contains `text`."""
    status: dict[str, Any] = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return any(text in (pod.get("message") or "") for pod in status.get("pods") or ())


async def shows_captured(api: KubeApi, prompt: int, decode: int) -> bool:
    """Return whether the status shows these numbers of captured graphs. Ten graphs are planned per phase."""
    return await captured_percent(api) == {"prompt": prompt * 10, "decode": decode * 10}


async def shows_recompiles(api: KubeApi, count: int) -> bool:
    """Return whether the status of `tiny` has this number of recompiles of ready pods."""
    found = await api.get("GaudiInference", "tiny") or {}
    return bool(found.get("status", {}).get("recompiles", {}).get("sinceReady") == count)


async def leads(operator: OperatorProcess) -> bool:
    """Return whether the process is the leader according to its metric."""
    return await operator.value("gaudi_operator_leader") == 1


async def captured_percent(api: KubeApi) -> Object | None:
    """Return the captured percentages in the status."""
    status: Object = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return status.get("capturedPercent")


def uids_and_specs(children: list[Object]) -> list[object]:
    """Return the UID and the spec of each child. A recreated child has a new UID, and an edited child a new spec."""
    return [(child["metadata"]["uid"], child["spec"]) for child in children]
