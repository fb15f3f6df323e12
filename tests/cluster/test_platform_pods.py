"""Pod fields that platforms need.

The API server accepts the fields, the pods serve, and the operator finds no drift.
"""

import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from gaudi_operator.core.children.drift import drifted_field
from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import NewClass
from tests.cluster.objects import Objects
from tests.cluster.pods import all_running, only_child, ready
from tests.support.builders import Object, gaudi_inference, merged
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "pods.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
HERE = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {NAME_LABEL: "tiny"}},
}
REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
TERM = {
    "matchExpressions": [
        {"key": "card", "operator": "In", "values": ["gaudi2", "gaudi3"]},
        {"key": "cores", "operator": "Gt", "values": ["8"]},
        {"key": "broken", "operator": "DoesNotExist"},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}],
}
SELECTOR = {"matchLabels": {"app": "noisy"}, "matchExpressions": [{"key": "old", "operator": "Exists"}]}
FAR = {**HERE, "labelSelector": SELECTOR, "namespaces": ["batch"], "namespaceSelector": {}}
AFFINITY = {
    "nodeAffinity": {
        REQUIRED: {"nodeSelectorTerms": [TERM]},
        PREFERRED: [{"weight": 100, "preference": {"matchExpressions": TERM["matchExpressions"][:1]}}],
    },
    "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {**HERE, "topologyKey": "zone"}}]},
    "podAntiAffinity": {REQUIRED: [FAR, HERE], PREFERRED: [{"weight": 2, "podAffinityTerm": FAR}]},
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": HERE["labelSelector"],
        "minDomains": 2,
        "matchLabelKeys": ["inference.gaudi.dev/revision"],
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    },
    {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": SELECTOR},
]
FILES = [{"key": "ca.crt", "path": "certificates/ca.pem"}]
LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
TEAM = {"path": "team", "fieldRef": {"fieldPath": "metadata.annotations['example.com/team']"}}
VOLUMES = [
    {"name": "ca", "configMap": {"name": "ca", "items": FILES, "defaultMode": 292, "optional": True}},
    {"name": "certificate", "secret": {"secretName": "certificate", "optional": False}},
    {"name": "logs", "emptyDir": {"sizeLimit": "1024Mi"}},
    {"name": "fast", "emptyDir": {"medium": "Memory"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {
        "name": "all",
        "projected": {
            "sources": [
                {"configMap": {"name": "ca", "items": FILES}},
                {"secret": {"name": "certificate", "optional": True}},
                {"downwardAPI": {"items": [LABELS, TEAM]}},
            ]
        },
    },
    {"name": "vault", "csi": {"driver": "vault.example", "readOnly": True, "volumeAttributes": {"role": "chat"}}},
]
ENV: list[Object] = [
    {"name": "PLAIN", "value": "yes"},
    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}}},
    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['example.com/team']"}}},
    {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
]
SIDE: Object = {
    "image": "registry.test/side:1",
    "imagePullPolicy": "Always",
    "command": ["/bin/side"],
    "args": ["--follow"],
    "env": ENV,
    "resources": {
        "requests": {"cpu": 1, "memory": "64Mi"},
        "limits": {"cpu": "1500m", "memory": "128Mi", "ephemeral-storage": "1Gi"},
    },
    "volumeMounts": [{"name": "logs", "mountPath": "/logs"}, {"name": "data", "mountPath": "/a/b", "readOnly": False}],
}
POD: Object = {
    "affinity": AFFINITY,
    "topologySpreadConstraints": SPREAD,
    "volumes": VOLUMES,
    "volumeMounts": [
        {"name": "logs", "mountPath": "/var/log/gaudi", "readOnly": False},
        {"name": "ca", "mountPath": "/etc/company", "subPath": "certificates"},
        {"name": "ca", "mountPath": "/etc/ssl/company"},
    ],
    "initContainers": [{"name": "prepare", **SIDE}, {"name": "prepare-more", "image": "registry.test/side:1"}],
    "sidecars": [{"name": "log", **SIDE}],
    "resources": {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2000m", "memory": "2Gi", "ephemeral-storage": "10Gi"},
    },
    "supplementalGroups": [3000],
}
OF_A_CLASS: dict[str, Object] = {
    "a user of the cluster": {"userFromCluster": True},
    "SYS_NICE": {"capabilities": ["SYS_NICE"]},
    "sizes of folders": {"cacheSize": "5Gi", "tmpSize": "1Gi"},
}
"""Defaults of a class that have no field in the spec."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_documented_example_is_accepted(objects: Objects, namespace: str, example: str) -> None:
    base = {"accelerator": {"generation": "gaudi3", "deviceMemory": None}, "engine": {"name": "vllm"}}
    objects.create(gaudi_inference("tiny", **merged(base, yaml.safe_load(example)["spec"])), namespace)


async def test_pods_with_every_platform_field_serve(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    kubelet.on_start = lambda runtime: runtime.warm()
    resource = gaudi_inference("tiny", engine={"env": ENV}, pod={**POD, "labels": {"example.com/team": "chat"}})
    await api.create(resource)
    await until(partial(ready, api), "the resource to be Ready")
    pod = await only_child(api, "Pod")
    assert pod is not None
    found = pod["spec"]
    assert [each["name"] for each in found["initContainers"]] == ["prepare", "prepare-more", "log"]
    assert found["containers"][0]["name"] == "runtime"
    assert found["affinity"]["podAntiAffinity"][REQUIRED][1]["labelSelector"] == {"matchLabels": {NAME_LABEL: "tiny"}}
    assert {each["name"] for each in VOLUMES} <= {each["name"] for each in found["volumes"]}


async def test_stored_template_has_no_drifted_field(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", engine={"env": ENV}, pod=POD))
    workload = await until(partial(only_child, api, "ReplicaSet"), "a ReplicaSet")
    revision = await until(partial(only_child, api, "ControllerRevision"), "a ControllerRevision")
    assert drifted_field(revision["data"]["template"], workload["spec"]["template"]) is None


async def test_pod_with_a_user_from_the_cluster_is_accepted(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass
) -> None:
    name = new_class(defaults={"userFromCluster": True})
    await api.create(gaudi_inference("tiny", className=name))
    await until(partial(all_running, api, kubelet, 1), "a pod")
    pod = await only_child(api, "Pod")
    assert pod is not None
    assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
