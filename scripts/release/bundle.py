"""The operator bundle for catalogs of OLM (registry+v1), made from the rendered chart and the CRDs.

OLM itself creates the service account, its roles and the Deployment from the ClusterServiceVersion. Objects of kinds
that OLM does not support are in policies.yaml, for `kubectl apply`.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from localcluster.programs.build import helm

Object = dict[str, Any]

NAMESPACE = "gaudi-system"
PACKAGE = "gaudi-operator"
CHANNEL = "alpha"
LABELS = {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": PACKAGE,
    "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
    "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
}
ALONG = ("ClusterRole", "PodDisruptionBudget", "Service")
"""Kinds that OLM creates from the bundle's files without changes."""
_COPIES = ("COPY manifests /manifests/", "COPY metadata /metadata/")
SEPARATE = ("NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
"""Kinds that OLM does not support, or supports only in its latest releases."""
OF_THE_OPERATOR = ("gaudi-operator", "gaudi-operator-classes")
"""ClusterRoles of the chart whose rules are in the ClusterServiceVersion. OLM creates and binds them."""
EXAMPLE_CLASS = {
    "apiVersion": "inference.gaudi.dev/v1alpha1",
    "kind": "GaudiInferenceClass",
    "metadata": {"name": "usual"},
    "spec": {"default": True, "limits": {"maxReplicas": 2, "hostPaths": []}},
}
_DESCRIPTION = """\
Serves language models on Intel Gaudi with vLLM. A replica receives traffic only after every planned shape is compiled.
Warm-up has a plan, a progress and an estimated end. A new revision replaces the old one only after its own warm-up,
and a revision that fails is rolled back. It needs neither a webhook nor a certificate manager.

Nodes with cards need Intel's Gaudi driver and device plugin, which offers the cards as `habana.ai/gaudi`.
"""


def bundle(chart: Path, definitions: Sequence[Path], registry: str, created: int) -> dict[str, bytes]:
    """Return the bundle's files by name. `registry` is the prefix of image names. `created` is a time in seconds."""
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
    crds = [yaml.safe_load(path.read_text()) for path in definitions]
    objects = _render_chart(chart, registry)
    example = yaml.safe_load((chart / "files" / "first.yaml").read_text())
    service_version = _version(metadata, objects, crds, example, created)
    files = {f"manifests/{PACKAGE}.clusterserviceversion.yaml": _dump(service_version)}
    files |= {f"manifests/{path.name}": path.read_bytes() for path in definitions}
    for manifest in objects:
        name = manifest["metadata"]["name"]
        if manifest["kind"] in ALONG and not (manifest["kind"] == "ClusterRole" and name in OF_THE_OPERATOR):
            manifest["metadata"].pop("namespace", None)  # OLM chooses the namespace
            files[f"manifests/{name}.{manifest['kind'].lower()}.yaml"] = _dump(manifest)
    dockerfile = ["FROM scratch", *(f"LABEL {name}={value}" for name, value in LABELS.items())]
    return {
        **files,
        "metadata/annotations.yaml": _dump({"annotations": LABELS}),
        "policies.yaml": b"---\n".join(_dump(manifest) for manifest in objects if manifest["kind"] in SEPARATE),
        "bundle.Dockerfile": "\n".join([*dockerfile, *_COPIES, ""]).encode(),
    }


def _render_chart(chart: Path, registry: str) -> list[Object]:
    """Return the chart rendered for a cluster that assigns users, as OpenShift does. Other clusters accept it too."""
    values = {
        "image": {"prefix": registry},
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None},
        "crds": {"install": False},
    }
    command = [
        str(helm() / "helm"),
        "template",
        PACKAGE,
        str(chart),
        "--namespace",
        NAMESPACE,
        "--skip-tests",
        "-f",
        "-",
    ]
    process = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    objects = [manifest for manifest in yaml.safe_load_all(process.stdout) if manifest]
    for manifest in objects:
        labels = manifest["metadata"]["labels"]
        for label in ("helm.sh/chart", "app.kubernetes.io/managed-by"):
            labels.pop(label)
    return objects


def _version(metadata: Object, objects: list[Object], crds: Iterable[Object], example: Object, created: int) -> Object:
    """Return the ClusterServiceVersion."""
    (deployment,) = (manifest for manifest in objects if manifest["kind"] == "Deployment")
    spec = deployment["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    # OLM sets this annotation to the namespaces of the OperatorGroup. An empty value means all namespaces.
    source = {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}
    environment = {variable["name"]: variable for variable in container["env"]}
    environment["GAUDI_OPERATOR_WATCH_NAMESPACES"] = {"name": "GAUDI_OPERATOR_WATCH_NAMESPACES", "valueFrom": source}
    container["env"] = list(environment.values())
    account = spec["template"]["spec"]["serviceAccountName"]
    # OLM grants `permissions` in the namespaces of the OperatorGroup, or in all namespaces if the group names none.
    permissions = _rules(objects, "ClusterRole", PACKAGE) + _rules(objects, "Role", f"{PACKAGE}-leader")
    cluster_permissions = _rules(objects, "ClusterRole", f"{PACKAGE}-classes")
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{PACKAGE}.v{metadata['version']}",
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps([example, EXAMPLE_CLASS], indent=2),
                "capabilities": "Seamless Upgrades",
                "categories": "AI/Machine Learning",
                "containerImage": container["image"],
                "createdAt": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "description": metadata["description"],
                "operatorframework.io/suggested-namespace": NAMESPACE,
            },
        },
        "spec": {
            "displayName": "Gaudi inference operator",
            "description": _DESCRIPTION,
            "version": metadata["version"],
            "minKubeVersion": "1.31.0",
            "maturity": CHANNEL,
            "keywords": metadata["keywords"],
            "provider": {"name": "The Gaudi inference operator"},
            "customresourcedefinitions": {"owned": sorted(map(_owned, crds), key=lambda crd: crd["kind"])},
            "installModes": [
                {"type": mode, "supported": True}
                for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "install": {
                "strategy": "deployment",
                "spec": {
                    "deployments": [{"name": PACKAGE, "label": deployment["metadata"]["labels"], "spec": spec}],
                    "permissions": [{"serviceAccountName": account, "rules": permissions}],
                    "clusterPermissions": [{"serviceAccountName": account, "rules": cluster_permissions}],
                },
            },
            "relatedImages": [
                {"name": name, "image": environment[variable]["value"] if variable else container["image"]}
                for name, variable in (
                    ("operator", ""),
                    ("runtime", "GAUDI_OPERATOR_RUNTIME_IMAGE"),
                    ("runtime-hpu", "GAUDI_OPERATOR_HPU_IMAGE"),
                )
            ],
        },
    }


def _rules(objects: Iterable[Object], kind: str, name: str) -> list[Object]:
    (role,) = (manifest for manifest in objects if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name))
    return list(role["rules"])


def _owned(definition: Object) -> Object:
    """Return the entry of a CRD in the ClusterServiceVersion."""
    spec = definition["spec"]
    (version,) = spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    return {
        "name": definition["metadata"]["name"],
        "version": version["name"],
        "kind": spec["names"]["kind"],
        "displayName": spec["names"]["kind"],
        "description": schema["description"],
    }


def _dump(document: Mapping[str, Any]) -> bytes:
    return yaml.safe_dump(dict(document), sort_keys=False, width=120).encode()
