"""API server outages and restarts, operator restarts, refused requests, and no writes at rest."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.kinds import WATCHED
from localcluster import ControlPlane
from tests.cluster.conftest import USER, Kubectl, NewOperator, leader_worker_sets
from tests.cluster.objects import Objects
from tests.cluster.pods import ready, stalled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import CHILDREN, KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import grants


async def test_operator_reconnects_after_an_api_server_restart(
    control_plane: ControlPlane, api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator(lease_duration_seconds=60, renew_deadline_seconds=40) as operator:
        await api.create(gaudi_inference("tiny"))
        await until(partial(ready, api), "the resource to be Ready")
        pid = operator.pid
        await asyncio.to_thread(control_plane.restart_apiserver)
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}})
        await until(partial(ready, api), "the second replica to be Ready", seconds=60)
        assert operator.running
        assert operator.pid == pid


async def test_resource_deleted_while_no_operator_ran_is_not_recreated(
    control_plane: ControlPlane, api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator(lease_duration_seconds=120, renew_deadline_seconds=100) as operator:
        for name in ("tiny", "other"):
            await api.create(gaudi_inference(name))
            await until(partial(ready, api, name), f"{name} to be Ready")
        os.kill(operator.pid, signal.SIGSTOP)
        await asyncio.to_thread(control_plane.restart_apiserver)
        await api.delete("GaudiInference", "tiny")
        await until(partial(_all_deleted, api, "tiny"), "all of tiny to be gone", seconds=60)
        os.kill(operator.pid, signal.SIGCONT)
        await api.merge("GaudiInference", "other", {"spec": {"replicas": 2}})
        await until(partial(ready, api, "other"), "the operator to have caught up", seconds=60)
        assert await operator.value("gaudi_operator_resources") == 1
        assert any("was deleted while not watched" in line["message"] for line in operator.lines())
    assert await _remaining_objects(api, "tiny") == []


async def test_operator_reconciles_after_leader_worker_sets_are_uninstalled(
    control_plane: ControlPlane, objects: Objects, api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with AsyncExitStack() as stack:
        with leader_worker_sets(control_plane, objects):
            operator = await stack.enter_async_context(new_operator())
            await api.create(gaudi_inference("tiny"))
            await until(partial(ready, api), "the resource to be Ready")
        await until(partial(_logs, operator, "leaderworkersets were uninstalled"), "the operator to notice")
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}})
        await until(partial(ready, api), "the second replica to be Ready")
        assert (await operator.get("/readyz")).status_code == 200


async def _logs(operator: OperatorProcess, text: str) -> bool:
    return any(text in line["message"] for line in operator.lines())


async def test_no_reconcile_before_every_kind_is_listed(
    api: KubeApi, kubelet: Kubelet, kubectl: Kubectl, new_operator: NewOperator, namespace: str
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    everywhere, *_ = grants(USER, namespace)
    without = [each for each in everywhere["rules"] if "networkpolicies" not in each["resources"]]
    kubectl("apply", "-f", "-", stdin=json.dumps({**everywhere, "rules": without}))
    async with new_operator() as operator:
        await until(partial(_reports_unready, operator, "cannot watch networkpolicies"), "the kind to be named")
        assert await operator.value("gaudi_operator_reconciles_total") == 0
        kubectl("apply", "-f", "-", stdin=json.dumps(everywhere))
        await until(partial(ready, api), "the resource to be Ready")
        assert (await operator.get("/readyz")).status_code == 200


async def _reports_unready(operator: OperatorProcess, why: str) -> bool:
    """Return whether all kinds except one are listed and /readyz contains `why`."""
    samples = await operator.samples("gaudi_operator_api_requests_total")
    listed = {dict(key)["resource"] for key in samples if ("verb", "list") in key and ("code", "200") in key}
    return len(listed) >= len(WATCHED) - 1 and why in (await operator.get("/readyz")).text


async def test_operator_watches_all_namespaces_if_no_namespace_is_set(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator(watch_namespaces=""):
        await api.create(gaudi_inference("tiny"))
        await until(partial(ready, api), "the resource to be Ready")


async def test_refused_child_is_retried_until_it_succeeds(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    foreign = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tiny"}, "spec": {"ports": [{"port": 1}]}}
    await api.create(foreign)
    await api.create(gaudi_inference("tiny"))
    await until(partial(stalled, api, "NameTaken"), "the resource to be Stalled")
    await api.delete("Service", "tiny")
    await until(partial(ready, api), "the resource to be Ready", seconds=60)


async def test_operator_survives_the_deletion_of_a_namespace(
    api: KubeApi, kubelet: Kubelet, kubectl: Kubectl, new_operator: NewOperator, namespace: str
) -> None:
    kubelet.on_start = FakeRuntime.warm
    for manifest in grants(USER, "default"):
        kubectl("apply", "--namespace=default", "-f", "-", stdin=json.dumps(manifest))
    async with new_operator(namespace="default", lease_name=namespace) as operator:
        await api.create(gaudi_inference("tiny"))
        await until(partial(ready, api), "the resource to be Ready")
        await asyncio.to_thread(kubectl, "delete", "namespace", namespace, "--timeout=90s")
        assert not any("exception" in line for line in operator.lines())
        await until(partial(_has_no_resources, operator), "the resource to be forgotten")


async def _has_no_resources(operator: OperatorProcess) -> bool:
    return await operator.value("gaudi_operator_resources") == 0


async def test_ready_resource_causes_no_writes(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    await _also_ready(api, "second")  # events are published in order, so those of the first resource are published too
    before = await _versions(api, "tiny")
    await _also_ready(api, "third")
    assert await _versions(api, "tiny") == before


async def _also_ready(api: KubeApi, name: str) -> None:
    await api.create(gaudi_inference(name))
    await until(partial(ready, api, name), f"{name} to be Ready")
    await until(partial(_has_ready_event, api, name), f"the event Ready of {name}")


async def _has_ready_event(api: KubeApi, name: str) -> bool:
    return any((each["reason"], each["regarding"]["name"]) == ("Ready", name) for each in await api.list("Event"))


async def _versions(api: KubeApi, name: str) -> list[tuple[str, str]]:
    """Return the names and resource versions of the objects that the operator writes for a resource."""
    own = [each for kind in (*CHILDREN, "Pod") for each in await _labelled(api, kind, name)]
    events = [each for each in await api.list("Event") if each["regarding"]["name"] == name]
    found = [*own, *events, await api.get("GaudiInference", name)]
    return [(each["metadata"]["name"], each["metadata"]["resourceVersion"]) for each in found if each]


async def _all_deleted(api: KubeApi, name: str) -> bool:
    return not await _remaining_objects(api, name)


async def _remaining_objects(api: KubeApi, name: str) -> list[str]:
    """Return the objects with the label of the resource, as `Kind name created-at`."""
    found = [(kind, each["metadata"]) for kind in (*CHILDREN, "Pod") for each in await _labelled(api, kind, name)]
    return [f"{kind} {metadata['name']} {metadata['creationTimestamp']}" for kind, metadata in found]


async def _labelled(api: KubeApi, kind: str, name: str) -> list[Object]:
    return await api.list(kind, f"{NAME_LABEL}={name}")
