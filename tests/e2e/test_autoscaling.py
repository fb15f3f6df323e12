"""A HorizontalPodAutoscaler that scales on the request metrics of the runtimes."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import install
from demo.install import Installation
from demo.load import Traffic
from demo.resource import Resource, condition
from localcluster.control_plane.certificates import Authority
from tests.support.metrics import running_requests

NAME, API = "busy", "metrics-api"
SCRIPT = Path(__file__).with_name("metrics_api.py")
PATIENCE = 180


@pytest.fixture
def serve_metrics(installed: Installation, namespace: str, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Start a metrics API server that reads /metrics of the pods."""
    authority = Authority.create(tmp_path)
    authority.issue("serving", API, hosts=(f"{API}.{namespace}.svc",))

    def _serve() -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": manifests(namespace, tmp_path)}
        installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=json.dumps(listed))

    yield _serve
    installed.kubectl("delete", "apiservice", "v1beta2.custom.metrics.k8s.io", "--ignore-not-found")


def test_autoscaler_scales_by_running_requests_and_status_reports_it(
    installed: Installation,
    namespace: str,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
    serve_metrics: Callable[[], None],
) -> None:
    autoscaling = {"minReplicas": 1, "maxReplicas": 2, "metrics": [running_requests(2)]}
    slow = {"settings": {"tokensPerSecond": "5"}}
    resource = apply(NAME, replicas=1, engine=slow, autoscaling=autoscaling)
    wait_ready(NAME)
    states = resource.states(PATIENCE)
    # Select the state by its reason. A controller manager that has just started sets the condition to False for another
    # reason.
    blind = next(state for state in states if condition(state, "AutoscalerActive")["reason"] == "FailedGetPodsMetric")
    assert condition(blind, "AutoscalerActive")["status"] == "False"
    message = condition(blind, "AutoscalerActive")["message"]
    assert "gaudi_requests_running" in message
    assert "A metrics adapter must serve each metric of spec.autoscaling.metrics" in message

    serve_metrics()
    states = resource.states(PATIENCE)
    seeing = next(state for state in states if condition(state, "AutoscalerActive")["status"] == "True")
    assert (
        condition(seeing, "AutoscalerActive")["message"]
        == "The autoscaler requests spec.replicas: 1 (allowed: 1 to 2)."
    )

    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    traffic.start(NAME, NAME, workers=4, max_tokens=20)
    asking = (
        state for state in states if " requests spec.replicas: 2 " in condition(state, "AutoscalerActive")["message"]
    )
    scaled = next(state for state in asking if state["status"]["readyReplicas"] == 2)
    assert scaled["spec"]["replicas"] == 2
    assert [answer.error for answer in traffic.stop() if answer.error] == []


def manifests(namespace: str, pki: Path) -> list[dict[str, Any]]:
    """Return the manifests of the metrics API: a pod, its permissions, and the registration as an aggregated API."""
    bundle = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
    files = {"tls.crt": (pki / "serving.crt").read_text(), "tls.key": (pki / "serving.key").read_text()}
    metadata = {"name": API, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        _role(metadata),
        _binding(metadata),
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": files},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {SCRIPT.name: SCRIPT.read_text()}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": {"app": API}}, "spec": _pod()},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": API}, "ports": [{"port": 443, "targetPort": 8443}]},
        },
        _open_status_port(metadata),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta2.custom.metrics.k8s.io"},
            "spec": {
                "group": "custom.metrics.k8s.io",
                "version": "v1beta2",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": metadata,
                "caBundle": bundle,
            },
        },
    ]


def _role(metadata: dict[str, str]) -> dict[str, Any]:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}


def _binding(metadata: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": API},
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }


def _open_status_port(metadata: dict[str, str]) -> dict[str, Any]:
    """Return the NetworkPolicy that docs/how-to/scaling.md tells users to add.

    Without this policy, the status port of a runtime admits only the operator.
    """
    rule = {"from": [{"podSelector": {"matchLabels": {"app": API}}}], "ports": [{"port": "status"}]}
    spec = {"podSelector": {"matchLabels": {"inference.gaudi.dev/name": NAME}}, "ingress": [rule]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def _pod() -> dict[str, Any]:
    container = {
        "name": "api",
        "image": install.RUNTIME_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", f"/script/{SCRIPT.name}", "8443", "/tls/tls.crt", "/tls/tls.key"],
        "volumeMounts": [{"name": "script", "mountPath": "/script"}, {"name": "tls", "mountPath": "/tls"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "serviceAccountName": API,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "script", "configMap": {"name": API}},
            {"name": "tls", "secret": {"secretName": API}},
        ],
    }
