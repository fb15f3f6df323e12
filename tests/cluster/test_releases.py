"""Upgrades from earlier releases. Existing objects keep running, and newer operators and definitions restart no pod."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from gaudi_operator.api.crd import crd_yaml
from gaudi_operator.core.names import FIELD_MANAGER, NAME_LABEL
from tests.cluster.conftest import Kubectl, NewOperator
from tests.cluster.pods import pod_ready, ready, uids_and_specs
from tests.cluster.record_release import FOLDER, NAMESPACE
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, api_version, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

RELEASES = sorted(path.name for path in FOLDER.iterdir())
APPLY = {"Content-Type": "application/apply-patch+yaml"}
Define = Callable[[str], Awaitable[None]]


def recorded(release: str, namespace: str) -> list[Object]:
    """Return the recorded objects of a release, moved to this namespace."""
    found: list[Object] = json.loads((FOLDER / release / "objects.json").read_text().replace(NAMESPACE, namespace))
    return found


@pytest.fixture
async def define(api: KubeApi, kubectl: Kubectl, crd: str) -> AsyncIterator[Define]:
    """Store another CustomResourceDefinition during the test. At the end, restore the definition of this release."""

    async def put(text: str) -> None:
        schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        kubectl("replace", "-f", "-", stdin=text)
        await until(partial(_served, api, set(_fields(schema))), "the definition to be served")

    yield put
    await put(crd_yaml())


async def _served(api: KubeApi, fields: set[str]) -> bool:
    document = await api.send("GET", f"/openapi/v3/apis/{api_version('GaudiInference')}")
    return any(fields <= set(_fields(each)) for each in document["components"]["schemas"].values())


def _fields(schema: Object, path: str = "") -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _fields(child.get("items", child), f"{path}.{name}")


async def restore(api: KubeApi, objects: list[Object]) -> None:
    """Create all objects. Owner references get the new UIDs, matched by the name of the owner."""
    uids: dict[str, str] = {}
    for manifest in objects:
        metadata = manifest["metadata"]
        if manifest["kind"] == "GaudiInference":
            created = await api.create(manifest)
            uids[metadata["name"]] = created["metadata"]["uid"]
            await api.merge("GaudiInference", metadata["name"], {"status": manifest["status"]}, "status")
        else:
            for owner in metadata.get("ownerReferences", ()):
                owner["uid"] = uids[owner["name"]]
            path = api.path(manifest["kind"], metadata["name"])
            await api.send("PATCH", path, manifest, params={"fieldManager": FIELD_MANAGER}, headers=APPLY)


async def all_run(api: KubeApi, kubelet: Kubelet) -> bool:
    """Return whether every ReplicaSet has its pods and each pod has a container."""
    sets = await api.list("ReplicaSet", NAME_LABEL)
    return len(kubelet.runtimes) == sum(each["spec"]["replicas"] for each in sets)


async def all_take_traffic(api: KubeApi, kubelet: Kubelet) -> bool:
    """Return whether the operator has opened the gate of every pod."""
    return all([await pod_ready(api, pod) for pod in kubelet.runtimes])


@pytest.mark.parametrize("release", RELEASES)
async def test_objects_of_a_release_run_unchanged_after_upgrade_and_downgrade(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator, define: Define, release: str
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await define((FOLDER / release / "crd.yaml").read_text())
    await restore(api, recorded(release, api.namespace))
    await until(partial(all_run, api, kubelet), "all pods to run", seconds=60)
    before = await _pods_and_templates(api)
    specs = await _specs(api)
    await define(crd_yaml())
    # Change the default image too. A new default must not change running resources.
    async with new_operator(runtime_image="registry.test/runtime:2"):
        await until(partial(all_take_traffic, api, kubelet), "all pods to take traffic", seconds=90)
        await until(partial(_all_ready, api, kubelet), "all resources to be Ready", seconds=60)
        assert await _pods_and_templates(api) == before
    await define((FOLDER / release / "crd.yaml").read_text())
    assert await _specs(api) == specs
    assert await _pods_and_templates(api) == before


async def _specs(api: KubeApi) -> dict[str, Object]:
    """Return the stored specs by name."""
    return {each["metadata"]["name"]: each["spec"] for each in await api.list("GaudiInference")}


async def _all_ready(api: KubeApi, kubelet: Kubelet) -> bool:
    """Return whether all resources are Ready and all statuses list the running pods instead of the recorded pods."""
    found = await api.list("GaudiInference")
    listed = {pod["name"] for each in found for pod in each["status"].get("pods", ())}
    return listed == kubelet.runtimes.keys() and all([await ready(api, each["metadata"]["name"]) for each in found])


async def _pods_and_templates(api: KubeApi) -> dict[str, object]:
    """Return the UIDs of the pods, their templates, and the data of the kept revisions."""
    kinds = ("Pod", "ReplicaSet", "ControllerRevision")
    pods, sets, revisions = [await api.list(kind, NAME_LABEL) for kind in kinds]
    return {
        "pods": sorted(each["metadata"]["uid"] for each in pods),
        "templates": {each["metadata"]["name"]: each["spec"] for each in sets},
        "revisions": {each["metadata"]["name"]: each["data"] for each in revisions},
    }


async def test_new_operator_release_restarts_no_pod(api: KubeApi, kubelet: Kubelet, new_operator: NewOperator) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator():
        await api.create(gaudi_inference("tiny"))
        await until(partial(ready, api), "the resource to be Ready")
    sets, pods = await api.list("ReplicaSet", NAME_LABEL), await api.list("Pod", NAME_LABEL)
    async with new_operator(runtime_image="registry.test/runtime:2") as newer:
        await api.merge("GaudiInference", "tiny", {"spec": {"service": {"port": 8080}}})
        await until(partial(_service_port, api, 8080), "the newer operator to have reconciled")
        await until(partial(ready, api), "the resource to be Ready")
        assert await newer.value("gaudi_operator_reconciles_total") > 0
    assert uids_and_specs(await api.list("ReplicaSet", NAME_LABEL)) == uids_and_specs(sets)
    assert uids_of(await api.list("Pod", NAME_LABEL)) == uids_of(pods)


async def test_newer_crd_restarts_no_pod(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, kubectl: Kubectl, crd: str, tmp_path: Path
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    sets, pods = await api.list("ReplicaSet", NAME_LABEL), await api.list("Pod", NAME_LABEL)
    field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ofTheFuture"
    addition = f'[{{"op":"add","path":"{field}","value":{{"type":"string","default":"new"}}}}]'
    kubectl("patch", "crd", crd, "--type=json", f"--patch={addition}")
    try:
        await api.merge("GaudiInference", "tiny", {"spec": {"service": {"port": 8080}}})
        await until(partial(_service_port, api, 8080), "the operator to have reconciled")
        assert (await api.get("GaudiInference", "tiny") or {})["spec"]["ofTheFuture"] == "new"
        await until(partial(ready, api), "the resource to be Ready")
    finally:
        kubectl("patch", "crd", crd, "--type=json", f'--patch=[{{"op":"remove","path":"{field}"}}]')
    assert uids_and_specs(await api.list("ReplicaSet", NAME_LABEL)) == uids_and_specs(sets)
    assert uids_of(await api.list("Pod", NAME_LABEL)) == uids_of(pods)


async def _service_port(api: KubeApi, port: int) -> bool:
    service = await api.get("Service", "tiny")
    return service is not None and service["spec"]["ports"][0]["port"] == port


def uids_of(objects: list[Object]) -> set[str]:
    return {each["metadata"]["uid"] for each in objects}
