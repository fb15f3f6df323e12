"""Install, upgrade and remove the operator with Helm and kubectl on an empty API server."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.api.crd import CLASS_NAME, NAME
from gaudi_operator.api.v1alpha1.inference_class import KIND as CLASS
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GROUP
from localcluster import ControlPlane
from localcluster.programs.build import helm as helm_folder
from scripts.chart_docs import CHART, MANIFEST, NAMESPACE
from tests.support.builders import gaudi_inference

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gaudi-operator"
RELEASE = ("gaudi-operator", str(CHART), "--namespace", NAMESPACE, "--set", "image.prefix=registry.test/")
Helm = Callable[..., str]


@pytest.fixture
def empty(control_plane: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """An additional API server.

    These tests install and remove objects that other tests need in the shared API server.
    """
    with ControlPlane(tmp_path / "empty", ip="10.201.0.1") as plane:
        yield plane


@pytest.fixture
def helm(empty: ControlPlane, tmp_path: Path) -> Helm:
    """Run Helm as administrator. If the command fails, the AssertionError contains Helm's output."""
    homes = {f"HELM_{name}_HOME": str(tmp_path / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **homes, "KUBECONFIG": str(empty.kubeconfig)}

    def run(*arguments: str) -> str:
        command = [str(helm_folder() / "helm"), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def create_model(plane: ControlPlane) -> None:
    """Create a GaudiInference in the new namespace `team`."""
    # kubectl uses API discovery. Wait for the new kind, because the API server updates the discovery data a moment
    # after the definition is established.
    served = ("api-resources", f"--api-group={GROUP}", "--output=name")
    plane.wait(lambda: NAME in plane.kubectl(*served), f"{NAME} to be served")
    plane.kubectl("create", "namespace", "team")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(gaudi_inference("model", "team")))


def create_class(plane: ControlPlane) -> None:
    """Create the GaudiInferenceClass `gold`."""
    served = ("api-resources", f"--api-group={GROUP}", "--output=name")
    plane.wait(lambda: CLASS_NAME in plane.kubectl(*served), f"{CLASS_NAME} to be served")
    manifest = {"apiVersion": API_VERSION, "kind": CLASS, "metadata": {"name": "gold"}, "spec": {}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def uid_of_model(plane: ControlPlane) -> str:
    """Return the UID of the object that create_model() created."""
    return plane.kubectl("get", "gi", "model", "-n", "team", "-o", "jsonpath={.metadata.uid}")


def allowed(plane: ControlPlane, user: str, verb: str, resource: str, namespace: str = "team") -> bool:
    """Return whether the API server allows the user's action. A new role takes effect after a moment."""
    name, _, subresource = resource.partition("/")
    group = "inference.gaudi.dev" if name == "gaudiinferences" else ""
    access = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": access},
    }
    answer = plane.kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed}", stdin=json.dumps(review))
    return answer == "true"


def operator_pods(plane: ControlPlane) -> list[str]:
    """Return the names of the operator's pods. Admission has accepted these pods, but no kubelet starts them."""
    return plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").split()


def test_kustomization_renders_the_manifest(control_plane: ControlPlane) -> None:
    def objects(text: str) -> list[str]:
        return sorted(json.dumps(each, sort_keys=True) for each in yaml.safe_load_all(text) if each)

    assert objects(control_plane.kubectl("kustomize", str(MANIFEST.parent))) == objects(MANIFEST.read_text())


def deployment(plane: ControlPlane, path: str, name: str = "gaudi-operator") -> str:
    """Return the value at a JSONPath in the operator's Deployment."""
    return plane.kubectl("get", "deployment", name, "-n", NAMESPACE, "-o", f"jsonpath={{{path}}}")


def test_rollback_restores_deployment_and_crd_and_keeps_models(empty: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    helm("install", *RELEASE, "--create-namespace")
    create_model(empty)
    created = uid_of_model(empty)
    chart = ("get", "crd", NAME, "-o", r"jsonpath={.metadata.labels.helm\.sh/chart}")
    before = empty.kubectl(*chart)

    helm("package", str(CHART), "--version", "9.9.9", "--app-version", "9.9.9", "--destination", str(tmp_path))
    newer = ("gaudi-operator", str(tmp_path / "gaudi-operator-9.9.9.tgz"), *RELEASE[2:])
    helm("upgrade", *newer, "--set", "replicas=3")
    assert empty.kubectl(*chart) == "gaudi-operator-9.9.9"
    assert deployment(empty, ".spec.template.spec.containers[0].image") == "registry.test/gaudi-operator:9.9.9"

    helm("rollback", "gaudi-operator", "1", "--namespace", NAMESPACE)
    assert empty.kubectl(*chart) == before
    assert deployment(empty, ".spec.replicas") == "2"
    assert uid_of_model(empty) == created


def test_helm_adopts_objects_that_kubectl_applied(empty: ControlPlane, helm: Helm) -> None:
    """Follow the steps of docs/start/install.md, and upgrade as usual afterwards."""
    empty.kubectl("apply", "-f", str(MANIFEST))
    # Wait until the pods exist. The namespace enforces the Pod Security level `restricted`, which rejects unsuitable
    # pods.
    empty.wait(lambda: len(operator_pods(empty)) == 2, "the controllers to create both operator pods")
    create_model(empty)
    created, running = uid_of_model(empty), deployment(empty, ".metadata.uid")
    with pytest.raises(AssertionError, match="ownership metadata"):
        helm("install", *RELEASE)

    # Apply with the field manager `helm`. Otherwise kubectl would remain a co-owner of each field, and the next upgrade
    # that changes a field would fail with a conflict.
    empty.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", str(MANIFEST))
    helm("install", *RELEASE, "--take-ownership")
    assert (uid_of_model(empty), deployment(empty, ".metadata.uid")) == (created, running)
    assert deployment(empty, ".spec.template.spec.containers[0].image").startswith("registry.test/gaudi-operator:")

    helm("upgrade", *RELEASE, "--set", "replicas=3")
    assert deployment(empty, ".spec.replicas") == "3"


def test_release_with_another_name_adopts_the_kept_crds(empty: ControlPlane, helm: Helm) -> None:
    helm("install", *RELEASE, "--create-namespace")
    create_model(empty)
    create_class(empty)
    created = uid_of_model(empty)
    helm("uninstall", "gaudi-operator", "--namespace", NAMESPACE)
    assert uid_of_model(empty) == created
    assert empty.kubectl("get", CLASS_NAME, "-o", "name") == f"gaudiinferenceclass.{GROUP}/gold\n"
    left = ("deployments,clusterroles", "-A", "-l", "app.kubernetes.io/instance=gaudi-operator")
    assert empty.kubectl("get", *left) == ""
    helm("install", *RELEASE)
    assert uid_of_model(empty) == created
    helm("uninstall", "gaudi-operator", "--namespace", NAMESPACE)
    other = ("inference", *RELEASE[1:])
    with pytest.raises(AssertionError, match=f"{NAME}.*ownership metadata"):
        helm("install", *other)

    helm("install", *other, "--take-ownership")
    assert uid_of_model(empty) == created
    assert deployment(empty, ".spec.replicas", "inference-gaudi-operator") == "2"
    helm("upgrade", *other, "--set", "replicas=3")
    assert deployment(empty, ".spec.replicas", "inference-gaudi-operator") == "3"


def test_helm_uninstall_deletes_the_crd_unless_it_is_kept(empty: ControlPlane, helm: Helm) -> None:
    helm("install", *RELEASE, "--create-namespace", "--set", "crds.keep=false")
    # Do not use `--wait` of Helm. Helm can return while the definition is still being deleted (helm/helm#31766).
    helm("uninstall", "gaudi-operator", "--namespace", NAMESPACE)
    empty.wait(lambda: NAME not in empty.kubectl("get", "crd", "-o", "name"), "the definition to be deleted")


def test_operator_may_patch_status_but_not_specs_pods_or_secrets(empty: ControlPlane, helm: Helm) -> None:
    helm("install", *RELEASE, "--create-namespace")
    empty.kubectl("create", "namespace", "team")
    for resource in ("pods/status", "gaudiinferences/status"):
        empty.wait(partial(allowed, empty, ACCOUNT, "patch", resource), f"the right to patch {resource}")
    refused = (("patch", "gaudiinferences"), ("get", "secrets"), ("delete", "pods"), ("create", "pods"))
    assert [each for each in refused if allowed(empty, ACCOUNT, *each)] == []


def test_operator_has_permissions_only_in_watched_namespaces(empty: ControlPlane, helm: Helm) -> None:
    empty.kubectl("create", "namespace", "team")
    empty.kubectl("create", "namespace", "other")
    helm("install", *RELEASE, "--create-namespace", "--set", "watchNamespaces={other}")
    empty.wait(partial(allowed, empty, ACCOUNT, "list", "gaudiinferences", "other"), "the rights to be known")
    assert not allowed(empty, ACCOUNT, "list", "gaudiinferences")


PLAIN = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "{{ .Release.Name }}"},
    "handler": "sandbox",
}
OF_PLATFORMS = {
    "extraContainers": [{"name": "signer", "image": "signer:1", "securityContext": PLAIN}],
    "extraInitContainers": [{"name": "agent", "image": "agent:1", "restartPolicy": "Always", "securityContext": PLAIN}],
    "extraObjects": [RUNTIME_CLASS],
    "runtimeClassName": "gaudi-operator",
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.53"], "options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["proxy.example.com"]}],
    "hostUsers": False,
    "metrics": {"ipFamilyPolicy": "PreferDualStack"},
    "networkPolicy": {"egress": [{"ports": [{"port": 443}, {"port": 53, "protocol": "UDP"}]}]},
}


def pods_with(
    empty: ControlPlane, helm: Helm, values: dict[str, Any], folder: Path, level: str
) -> list[dict[str, Any]]:
    """Install the chart into a namespace with this Pod Security level, and return the operator's admitted pods."""
    empty.kubectl("create", "namespace", NAMESPACE)
    empty.kubectl("label", "namespace", NAMESPACE, f"pod-security.kubernetes.io/enforce={level}")
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    helm("install", *RELEASE, "--values", str(file))
    empty.wait(lambda: len(operator_pods(empty)) == 2, "the controllers to create both operator pods")
    pods: list[dict[str, Any]] = json.loads(empty.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    return pods


def test_restricted_namespace_accepts_custom_pod_fields(empty: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    pod = pods_with(empty, helm, OF_PLATFORMS, tmp_path, "restricted")[0]["spec"]
    assert [each["name"] for each in pod["initContainers"] + pod["containers"]] == ["agent", "operator", "signer"]
    assert (pod["hostUsers"], pod["runtimeClassName"]) == (False, "gaudi-operator")
    assert pod["dnsConfig"] == OF_PLATFORMS["dnsConfig"]


def test_host_network_pods_request_their_port(empty: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    nodes = {"from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]}
    values = {"hostNetwork": True, "httpPort": 18080, "monitoring": nodes}
    for pod in pods_with(empty, helm, values, tmp_path, "privileged"):
        # Because of the host port, the scheduler places at most one operator pod on a node.
        assert [port["hostPort"] for port in pod["spec"]["containers"][0]["ports"]] == [18080]


def test_built_in_roles_include_the_resource(empty: ControlPlane, helm: Helm) -> None:
    helm("install", *RELEASE, "--create-namespace")
    empty.kubectl("create", "namespace", "team")
    for role in ("view", "edit", "admin"):
        binding = ("rolebinding", role, "--namespace", "team", f"--clusterrole={role}", f"--user={role}")
        empty.kubectl("create", *binding)
    rights = (("view", "get"), ("edit", "create"), ("admin", "create"))
    for role, verb in rights:  # each is awaited: the part of view may be aggregated before that of edit
        empty.wait(partial(allowed, empty, role, verb, "gaudiinferences"), f"the role {role} to be aggregated")
    assert not allowed(empty, "view", "create", "gaudiinferences")
