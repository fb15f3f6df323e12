"""Values that Helm refuses, and what it says."""

from typing import Any

import pytest

from tests.unit.chart.rendering import refusal, template

pytestmark = pytest.mark.timeout(1200)  # the very first run builds Helm


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"image": {"repository": "x"}}, "at '/image': additional properties 'repository' not allowed"),
        ({"image": {"prefix": "registry.example.com"}}, "at '/image/prefix': 'registry.example.com' does not match"),
        ({"image": {"prefix": ""}}, "set image.prefix to where you pushed the images"),
        (
            {"image": {"prefix": "", "operator": "operator:1"}},
            "image.runtime to whole references",
        ),
        ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ({"logging": {"level": "debug"}}, "value must be one of 'DEBUG', 'INFO', 'WARNING', 'ERROR'"),
        ({"watchNamespaces": ["Team A"]}, "at '/watchNamespaces/0': 'Team A' does not match pattern"),
        ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
        ({"image": {"digests": {"operator": "latest"}}}, "at '/image/digests/operator': 'latest' does not match"),
        (
            {"image": {"runtime": f"runtime@sha256:{'0' * 64}", "digests": {"runtime": f"sha256:{'0' * 64}"}}},
            "names a digest already: leave image.digests.runtime out",
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
            "leaderElection: retryPeriodSeconds (2) must be below renewDeadlineSeconds (20), and that below"
            " leaseDurationSeconds (15): a leader has to give up before another one may take over.",
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
            "the name operator is taken by another container of the pod. Choose another.",
        ),
        (
            {name: [{"name": "agent", "image": "agent:1"}] for name in ("extraContainers", "extraInitContainers")},
            "the name agent is taken by another container of the pod. Choose another.",
        ),
        ({"extraObjects": [1]}, "at '/extraObjects/0': got number, want string or object"),
        ({"httpPort": 80}, "at '/httpPort': minimum: got 80, want 1,024"),
        (
            {"extraArgs": ["--http-port=9000"]},
            "extraArgs has --http-port=9000, which probes and Service would not follow: set httpPort instead.",
        ),
        ({"dnsPolicy": "Cluster"}, "at '/dnsPolicy': value must be one of ''"),
        (
            {"dnsPolicy": "None", "dnsConfig": {"searches": ["example.com"]}},
            "dnsPolicy is None, so the pods know no name server: name one in dnsConfig.nameservers.",
        ),
        (
            {"automountServiceAccountToken": False},
            "the API server would not know the operator. Mount a projected token there (extraVolumes),",
        ),
        (
            {"metrics": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4", "IPv6"]}},
            "metrics.ipFamilyPolicy is SingleStack, but metrics.ipFamilies names two",
        ),
        (
            {"hostNetwork": True},
            "which the network policies of models let in only if monitoring.from names it: add the nodes' range,",
        ),
        (
            {"hostNetwork": True, "dnsPolicy": "ClusterFirst"},
            "hostNetwork makes dnsPolicy ClusterFirst mean Default: set ClusterFirstWithHostNet",
        ),
        ({"hostNetwork": True, "hostUsers": False}, "hostNetwork and hostUsers=false exclude each other in Kubernetes"),
        (
            {
                "hostNetwork": True,
                "monitoring": {"from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]},
                "networkPolicy": {"egress": [{"ports": [{"port": 443}]}]},
            },
            "networkPolicy.egress does nothing for pods with hostNetwork: leave it out",
        ),
        *(
            (
                {"tuning": {"planMemoryMiB": 512}, "resources": {"limits": {"memory": memory}}},
                f"resources.limits.memory ({memory}) is too little for tuning.planMemoryMiB (512) and the 256Mi that"
                " the operator itself takes: raise it to 768Mi, or lower planMemoryMiB.",
            )
            for memory in ("512Mi", "767Mi", 536870912, "700M", "1048576")
        ),
    ],
)
def test_wrong_values_stop_rendering(values: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**values)


@pytest.mark.parametrize("memory", ["768Mi", "1Gi", 805306368, "1G", "0.5Ti", "1e12"])
def test_enough_memory_for_plans_is_rendered(memory: str | int) -> None:
    resources = {"limits": {"memory": memory}}
    assert template("gaudi-operator", tuning={"planMemoryMiB": 512}, resources=resources).returncode == 0
