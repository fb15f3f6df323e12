"""Values that Helm refuses, and the error messages."""

from typing import Any

import pytest

from tests.unit.chart.rendering import refusal

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"image": {"repository": "x"}}, "at '/image': additional properties 'repository' not allowed"),
        ({"image": {"prefix": "registry.example.com"}}, "at '/image/prefix': 'registry.example.com' does not match"),
        ({"image": {"prefix": ""}}, "Set image.prefix to where you pushed the images"),
        (
            {"image": {"prefix": "", "operator": "operator:1"}},
            "image.runtime to complete references",
        ),
        ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ({"logging": {"level": "debug"}}, "value must be one of 'DEBUG', 'INFO', 'WARNING', 'ERROR'"),
        ({"watchNamespaces": ["Team A"]}, "at '/watchNamespaces/0': 'Team A' does not match pattern"),
        ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
        ({"image": {"digests": {"operator": "latest"}}}, "at '/image/digests/operator': 'latest' does not match"),
        (
            {"image": {"runtime": f"runtime@sha256:{'0' * 64}", "digests": {"runtime": f"sha256:{'0' * 64}"}}},
            "already names a digest: leave image.digests.runtime out",
        ),
        ({"extraEnv": [{"name": "GAUDI_OPERATOR_LOG_LEVEL", "value": "DEBUG"}]}, "which the chart sets itself"),
        ({"extraArgs": ["--verbose"]}, "at '/extraArgs/0': '--verbose' does not match pattern"),
        ({"models": {"imagePullSecrets": ["registry"]}}, "at '/models/imagePullSecrets/0': got string, want object"),
        ({"strategy": {"type": "Surge"}}, "at '/strategy/type': value must be one of 'Recreate', 'RollingUpdate'"),
        ({"tuning": {"reportWaitSeconds": 90}}, "at '/tuning/reportWaitSeconds': maximum: got 90, want 60"),
        ({"podDisruptionBudget": {"maxUnavailable": 0}}, "maxUnavailable': minimum: got 0, want 1"),
        ({"metrics": {"serviceMonitor": {"interval": "often"}}}, "interval': 'often' does not match pattern"),
        (
            {"leaderElection": {"renewDeadlineSeconds": 20}},
            "leaderElection: retryPeriodSeconds (2) must be below renewDeadlineSeconds (20), which must be below"
            " leaseDurationSeconds (15): a leader must give up before another one may take over.",
        ),
        (
            {"metrics": {"service": False, "serviceMonitor": {"enabled": True}}},
            "metrics.serviceMonitor.enabled needs metrics.service: a ServiceMonitor finds pods through a Service."
            " Set metrics.service to true.",
        ),
        (
            {"serviceAccount": {"create": False}},
            "serviceAccount.create is false, so serviceAccount.name must name an existing service account.",
        ),
        ({"extraContainers": [{"name": "signer"}]}, "at '/extraContainers/0': missing property 'image'"),
        (
            {"extraContainers": [{"name": "operator", "image": "other:1"}]},
            "another container of the pod has the name operator. Choose another name.",
        ),
        (
            {name: [{"name": "agent", "image": "agent:1"}] for name in ("extraContainers", "extraInitContainers")},
            "another container of the pod has the name agent. Choose another name.",
        ),
        ({"extraObjects": [1]}, "at '/extraObjects/0': got number, want string or object"),
        ({"httpPort": 80}, "at '/httpPort': minimum: got 80, want 1,024"),
        (
            {"extraArgs": ["--http-port=9000"]},
            "extraArgs has --http-port=9000, but probes and Service would keep the old port: set httpPort instead.",
        ),
        ({"dnsPolicy": "Cluster"}, "at '/dnsPolicy': value must be one of ''"),
        (
            {"dnsPolicy": "None", "dnsConfig": {"searches": ["example.com"]}},
            "dnsPolicy is None, so the pods have no name server: set dnsConfig.nameservers.",
        ),
        (
            {"automountServiceAccountToken": False},
            "the operator could not authenticate to the API server. Mount a projected token there (extraVolumes),",
        ),
        (
            {"metrics": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4", "IPv6"]}},
            "metrics.ipFamilyPolicy is SingleStack, but metrics.ipFamilies has two families",
        ),
        (
            {"hostNetwork": True},
            "which the network policies of models allow only if monitoring.from contains it: add the range of the "
            "nodes,",
        ),
        (
            {"hostNetwork": True, "dnsPolicy": "ClusterFirst"},
            "With hostNetwork, Kubernetes treats dnsPolicy ClusterFirst as Default: set ClusterFirstWithHostNet",
        ),
        ({"hostNetwork": True, "hostUsers": False}, "does not allow hostNetwork together with hostUsers=false"),
        (
            {
                "hostNetwork": True,
                "monitoring": {"from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]},
                "networkPolicy": {"egress": [{"ports": [{"port": 443}]}]},
            },
            "networkPolicy.egress has no effect on pods with hostNetwork: leave it out",
        ),
    ],
)
def test_invalid_values_are_refused_with_a_reason(values: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**values)
