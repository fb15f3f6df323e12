"""Records the objects of this release in a cluster. The tests of later releases read the recorded objects.

GAUDI_RELEASE=0.1.0 .venv/bin/python -m pytest tests/cluster/record_release.py
"""

import json
import os
from functools import partial
from pathlib import Path

from gaudi_operator.api.crd import crd_yaml
from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.pods import ready
from tests.cluster.release_resources import CHANGED, resources
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import CHILDREN, KubeApi, Object, api_version, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

FOLDER = Path(__file__).parents[1] / "data" / "releases"
KINDS = ("GaudiInference", *CHILDREN, "HorizontalPodAutoscaler", "PersistentVolumeClaim")
NAMESPACE = "namespace-of-the-record"
_FLEETING = ("managedFields", "resourceVersion", "uid", "selfLink", "namespace", "creationTimestamp")
"""Fields that the API server sets again when the objects are restored."""


async def test_definition_and_objects_of_this_release_are_recorded(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    for manifest in resources():
        name = manifest["metadata"]["name"]
        await api.create(manifest)
        await until(partial(_served, api, name), f"{name} to be Ready", seconds=30)
    await api.merge("GaudiInference", "history", {"spec": CHANGED})
    await until(partial(_served, api, "history", 2), "history to have its second revision", seconds=90)
    folder = FOLDER / os.environ["GAUDI_RELEASE"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crd.yaml").write_text(crd_yaml())
    found = [_plain(each, kind) for kind in KINDS for each in await _objects(api, kind)]
    lines = ",\n".join(json.dumps(each, sort_keys=True) for each in found).replace(api.namespace, NAMESPACE)
    (folder / "objects.json").write_text(f"[\n{lines}\n]\n")


async def _served(api: KubeApi, name: str, revisions: int = 1) -> bool:
    selector = f"{NAME_LABEL}={name}"
    kept = await api.list("ControllerRevision", selector)
    # The operator deletes the empty ReplicaSet of the older revision shortly after the resource becomes Ready. Wait
    # until only one ReplicaSet is left.
    workloads = await api.list("ReplicaSet", selector)
    stalled = condition_of(await api.get("GaudiInference", name), "Stalled")
    assert stalled.get("status") != "True", stalled
    return await ready(api, name) and len(kept) == revisions and len(workloads) == 1


async def _objects(api: KubeApi, kind: str) -> list[Object]:
    return await api.list(kind, "" if kind == "GaudiInference" else NAME_LABEL)


def _plain(manifest: Object, kind: str) -> Object:
    metadata = {key: each for key, each in manifest["metadata"].items() if key not in _FLEETING}
    owners = [{**owner, "uid": ""} for owner in metadata.get("ownerReferences", ())]
    kept = {key: each for key, each in manifest.items() if kind == "GaudiInference" or key != "status"}
    if owners:
        metadata["ownerReferences"] = owners
    if kind == "Service":  # its address may be taken in the cluster where it is restored
        kept = {**kept, "spec": {key: each for key, each in kept["spec"].items() if not key.startswith("clusterIP")}}
    return {**kept, "apiVersion": api_version(kind), "kind": kind, "metadata": metadata}
