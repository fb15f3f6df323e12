"""A fake scheduler and kubelet for one namespace. They bind pods, start runtimes, and write the condition Ready."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self

import httpx

from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from tests.support.background import Background
from tests.support.fake_runtime import FakeRuntime, Runtime
from tests.support.kube_api import KubeApi, Object, condition_of
from tests.world import pods

NODE = "node-of-the-tests"
OWN = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
"""The conditions that a kubelet writes. Other clients write the conditions of readiness gates."""
_HEARTBEAT_SECONDS = 10
_RETRY_SECONDS = 0.2
_SETTLED = (404, 409, 422)
"""The status codes of requests for a pod that is gone or was replaced."""
_addresses = (f"10.250.{host // 250}.{host % 250 + 1}" for host in itertools.count())


@dataclass
class _Pod:
    """A running pod: its container, number of restarts, and start time."""

    runtime: Runtime
    started: str
    restarts: int = 0
    probed: bool = False
    runs: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)


class Kubelet:
    """A kubelet of one node, used as an async context manager. It calls `on_start` with each new container."""

    def __init__(self, api: KubeApi) -> None:
        """Create the kubelet without starting a watch.

        An unschedulable pod reports that it has been unschedulable for `seconds_without_node`. A refused pod ends
        before its container starts, for example because the device plugin has no card.
        """
        self._api = api
        self._pods: dict[str, _Pod] = {}
        self._latest: dict[str, Object] = {}
        self._starting: set[str] = set()
        # The runtimes that may hold resources. The list includes the runtimes of deleted pods and of starting pods.
        self._open: list[Runtime] = []
        self._background = Background()
        self.on_start: Callable[[FakeRuntime], None] = lambda _: None
        self.make_runtime: Callable[[str, Object], Awaitable[Runtime]] = _fake
        self.schedulable: Callable[[Object], bool] = lambda _: True
        self.seconds_without_node = 0
        self.refuses: Callable[[Object], bool] = lambda _: False

    async def __aenter__(self) -> Self:
        """Register the node, and serve pods in the background."""
        await self._register()
        self._background.spawn(self._heartbeat())
        self._background.spawn(self._serve())
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Stop all tasks and containers. Raises the first error of the tasks."""
        await self._background.stop()
        await asyncio.gather(*map(self._end, self._open))
        if error is None:
            self._background.check()

    def runtime(self, pod: str) -> FakeRuntime:
        """Return the container that runs in a pod. Raises KeyError if the pod has no container."""
        runtime = self._pods[pod].runtime
        assert isinstance(runtime, FakeRuntime)
        return runtime

    @property
    def runtimes(self) -> dict[str, Runtime]:
        """The running containers by pod name. A container is listed only after the call of `on_start`."""
        return {name: pod.runtime for name, pod in self._pods.items() if pod.runs}

    @property
    def failures(self) -> list[BaseException]:
        """The errors of tasks that ended. A pod whose task failed may never start."""
        return self._background.failures

    async def restart(self, name: str) -> Runtime:
        """Kill the container of a pod and start a new container, unless the pod is deleted meanwhile."""
        pod = self._pods[name]
        async with pod.starting:
            await self._end(pod.runtime)
            if name not in self._latest:
                return pod.runtime
            pod.runtime = await self._make_runtime_at(pod.runtime.address, self._latest[name])
            pod.runtime.on_change, pod.probed = partial(self._probed, name), False
            pod.restarts += 1
            await pod.runtime.start()
        await self.probe(name)
        return pod.runtime

    async def reschedule(self) -> None:
        """Retry to schedule pods without a node. Call this method after a change of `schedulable`."""
        for pod in [each for each in self._latest.values() if "nodeName" not in each["spec"]]:
            await self._handle("MODIFIED", pod)

    async def probe(self, name: str) -> None:
        """Write the status of the pod. The status depends on the container and on the conditions of the pod."""
        await self._write_status(name)

    async def _serve(self) -> None:
        while True:
            with suppress(httpx.TransportError, httpx.HTTPStatusError):
                async for event in self._api.watch("Pod"):
                    if event["type"] == "ERROR":
                        break
                    self._keep_newest(event["object"])
                    self._background.spawn(self._handle(event["type"], event["object"]))
            await asyncio.sleep(0.1)

    async def _handle(self, event: str, pod: Object) -> None:
        """Handle one pod event. Like a kubelet, retry failed requests while the pod exists."""
        name = pod["metadata"]["name"]
        while True:
            try:
                await self._process(event, name, pod)
                return
            except httpx.HTTPStatusError as error:
                if error.response.status_code in _SETTLED:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(_RETRY_SECONDS)
            if name not in self._latest and event != "DELETED" and "deletionTimestamp" not in pod["metadata"]:
                return
            pod = self._latest.get(name, pod)

    async def _process(self, event: str, name: str, pod: Object) -> None:
        if event == "DELETED":
            await self._stop(name)
        elif "deletionTimestamp" in pod["metadata"]:
            await self._stop(name)
            ours = {"uid": pod["metadata"]["uid"]}  # Do not delete a new pod with the same name.
            await self._api.delete("Pod", name, gracePeriodSeconds=0, preconditions=ours)
        elif "nodeName" not in pod["spec"]:
            await self._bind(pod)
        elif pod.get("status", {}).get("phase") == "Failed":
            return
        elif name not in self._pods and self.refuses(pod):
            await self._api.strategic("Pod", name, {"status": pods.refused(_now())}, "status")
        elif name not in self._pods:
            await self._start(pod)
        else:
            await self._write_status(name)

    def _keep_newest(self, pod: Object) -> None:
        """Store a version of a pod if it is the newest version. Versions come from the watch and from answers."""
        name, version = pod["metadata"]["name"], int(pod["metadata"]["resourceVersion"])
        known = self._latest.get(name)
        if known is None or int(known["metadata"]["resourceVersion"]) < version:
            self._latest[name] = pod

    async def _bind(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if not self.schedulable(pod):
            await self._unschedulable(pod)
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = self._api.path("Pod", name, "binding")
        await self._api.send("POST", path, binding, headers={"Content-Type": "application/json"})

    async def _unschedulable(self, pod: Object) -> None:
        if condition_of(pod, "PodScheduled").get("reason") == "Unschedulable":
            return
        since = _stamp(datetime.now(UTC) - timedelta(seconds=self.seconds_without_node))
        status = pods.unschedulable({}, since, "0/1 nodes are available")
        await self._api.strategic("Pod", pod["metadata"]["name"], {"status": status}, "status")

    async def _start(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if name in self._starting:
            return
        self._starting.add(name)
        runtime = await self._make_runtime_at(next(_addresses), pod)
        self._pods[name] = running = _Pod(runtime, _now())
        runtime.on_change = partial(self._probed, name)
        async with running.starting:
            await runtime.start()
        if isinstance(runtime, FakeRuntime):
            self.on_start(runtime)
        running.runs = True
        await self._write_status(name)

    def _probed(self, name: str) -> None:
        """Update the pod when its container reports a change. A periodic readiness probe would be slower."""
        pod = self._pods.get(name)
        if pod and pod.runtime.serving != pod.probed:
            pod.probed = pod.runtime.serving
            self._background.spawn(self._reprobe(name))

    async def _reprobe(self, name: str) -> None:
        with suppress(httpx.HTTPError):
            await self.probe(name)

    async def _stop(self, name: str) -> None:
        self._latest.pop(name, None)
        self._starting.discard(name)
        if pod := self._pods.pop(name, None):
            async with pod.starting:
                await self._end(pod.runtime)

    async def _make_runtime_at(self, address: str, pod: Object) -> Runtime:
        runtime = await self.make_runtime(address, pod)
        self._open.append(runtime)
        return runtime

    async def _end(self, runtime: Runtime) -> None:
        """Stop a runtime. If the caller is cancelled, __aexit__() stops the runtime instead."""
        await runtime.stop()
        if runtime in self._open:
            self._open.remove(runtime)

    async def _write_status(self, name: str) -> None:
        """Patch the status of a pod if the status is outdated. Do nothing if the pod is deleted."""
        pod = self._pods.get(name)
        if pod is None:
            return
        async with pod.lock:
            manifest = self._latest.get(name)
            if manifest is None:
                return
            desired = _status(manifest, pod)
            shown = manifest.get("status") or {}
            if _summary(desired) != _summary(shown):
                identity = {"metadata": {"uid": manifest["metadata"]["uid"]}, "status": desired}
                self._keep_newest(await self._api.strategic("Pod", name, identity, "status"))

    async def _register(self) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        with suppress(httpx.HTTPStatusError):
            await self._api.create(node)
        await self._beat()

    async def _heartbeat(self) -> None:
        """Renew the node's lease. Otherwise the node controller marks all pods as not ready."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            with suppress(httpx.HTTPError):
                await self._beat()

    async def _beat(self) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        await self._api.strategic("Node", NODE, {"status": {"conditions": [ready]}}, "status")


async def _fake(address: str, pod: Object) -> Runtime:
    annotations = pod["metadata"].get("annotations") or {}
    return FakeRuntime(address, annotations.get(PLAN_HASH_ANNOTATION, "0" * 64))


def _status(manifest: Object, pod: _Pod) -> Object:
    """Return the status that a kubelet writes.

    A strategic merge patch keeps the conditions that other clients wrote.
    """
    runtime = pod.runtime
    state = {"running": {"startedAt": pod.started}}
    container = {
        **pods.container_status(runtime.container_id, runtime.serving, pod.restarts, state),
        "image": manifest["spec"]["containers"][0]["image"],
        "imageID": "test://image",
        "started": True,
    }
    status = pods.running(manifest, runtime.address, container, _now())
    own = [each for each in status["conditions"] if each["type"] in OWN]
    return {**status, "startTime": pod.started, "conditions": own}


def _summary(status: Object) -> tuple[Any, ...]:
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    own = tuple(conditions.get(name) for name in OWN)
    containers = tuple((each["containerID"], each["ready"]) for each in status.get("containerStatuses") or ())
    return status.get("phase"), status.get("podIP"), containers, own


def _now() -> str:
    return _stamp(datetime.now(UTC))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
