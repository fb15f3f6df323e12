"""Objects of one namespace that would take more memory than the operator has. Another namespace keeps serving."""

import asyncio
from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.watching.memory_shares import NAMESPACE_BYTES
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import ready
from tests.cluster.test_hostile_plans import peak_memory
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, api_version, until
from tests.support.kubelet import Kubelet

RESOURCES = 24
MEMORY_LIMIT = 256
"""MiB, half of what the chart gives to the operator. Without the limit of a namespace, the operator takes 375 MiB."""


def hostile_children(resource: Object) -> list[Object]:
    """Return children of a resource. As Python values, they take 14 MiB, 17 times as much as their JSON."""
    metadata = resource["metadata"]
    owner = {name: resource[name] for name in ("apiVersion", "kind")} | {
        name: metadata[name] for name in ("name", "uid")
    }

    def child(kind: str, number: int, content: Object) -> Object:
        labels = {NAME_LABEL: metadata["name"]}
        references = [{**owner, "controller": True}]
        identity = {"name": f"{metadata['name']}-{number}", "labels": labels, "ownerReferences": references}
        return {"apiVersion": api_version(kind), "kind": kind, "metadata": identity, **content}

    # The values differ, because the operator stores equal texts only once.
    texts = [[f"{metadata['name']}-{number}-{each}" for each in range(5_000)] for number in range(4)]
    data = [[{text: []} for text in each] for each in texts]
    peers = [[{"podSelector": {"matchLabels": {text: ""}}} for text in each[:2_500]] for each in texts]
    return [
        *(
            child("ControllerRevision", number, {"data": {"x": each}, "revision": 1})
            for number, each in enumerate(data)
        ),
        *(
            child("NetworkPolicy", number, {"spec": {"podSelector": {}, "ingress": [{"from": each}]}})
            for number, each in enumerate(peers)
        ),
    ]


async def fill(api: KubeApi) -> None:
    """Create resources without pods, and their hostile children."""
    for number in range(RESOURCES):
        resource = await api.create(gaudi_inference(f"hostile-{number}", replicas=0))
        await asyncio.gather(*map(api.create, hostile_children(resource)))


async def test_gates_open_while_another_namespace_fills_the_memory(
    api: KubeApi, other_api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator(watch_namespaces=f"{api.namespace},{other_api.namespace}") as operator:
        full = f"The objects of namespace {other_api.namespace} take more than {NAMESPACE_BYTES // 2**20} MiB of memory"

        async def is_full() -> bool:
            return any(line["message"].startswith(full) for line in operator.lines())

        await api.create(gaudi_inference("tiny"))
        await until(partial(ready, api), "the resource to be Ready")
        await fill(other_api)
        await until(is_full, "the memory of the other namespace to be full", seconds=60)
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}})
        await until(partial(ready, api), "the gate of a second pod to open")
        assert peak_memory(operator.pid) < MEMORY_LIMIT
        # A new leader lists the objects that the previous leader received from watches.
        await operator.terminate()
        await operator.start()
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 3}})
        await until(partial(ready, api), "the gate of a third pod to open", seconds=60)
        assert peak_memory(operator.pid) < MEMORY_LIMIT
        assert not [line for line in operator.lines() if "exception" in line], "the operator logged a defect"
