"""The simulated kubelet without an API server."""

import asyncio
from typing import cast

from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet

POD: Object = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"nodeName": "node"}}


class Slow(FakeRuntime):
    """A container whose start the test controls."""

    def __init__(self) -> None:
        super().__init__("10.250.0.1", "0" * 64)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        self.asked.set()
        await self.go.wait()


async def test_pod_deleted_during_its_start_leaves_no_runtime() -> None:
    kubelet, slow = Kubelet(cast("KubeApi", None)), Slow()

    async def make(*_: object) -> Slow:
        return slow

    async def gone() -> bool:
        return not kubelet._pods

    kubelet.make_runtime = make
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kubelet._handle("ADDED", POD))
        await slow.asked.wait()
        tasks.create_task(kubelet._handle("DELETED", POD))
        await until(gone, "the pod to be forgotten")
        slow.go.set()
    assert kubelet.runtimes == {}
