"""Requests are counted by verb and resource, named as in an audit log."""

import re
from pathlib import Path

import pytest

from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics

DOCUMENT = Path(__file__).parents[5] / "docs" / "reference" / "metrics.md"


@pytest.mark.parametrize(
    ("method", "path", "watch", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", True, "watch", "pods"),
        ("GET", "/api/v1/namespaces/ns/pods", False, "list", "pods"),
        ("GET", "/api/v1/namespaces/ns/services/tiny", False, "get", "services"),
        ("PATCH", "/api/v1/namespaces/ns/pods/tiny-1/status", False, "patch", "pods/status"),
        ("PATCH", "/apis/apps/v1/namespaces/pods/replicasets/tiny", False, "patch", "replicasets"),
        ("DELETE", "/api/v1/namespaces/ns/configmaps/tiny", False, "delete", "configmaps"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", False, "create", "events"),
        ("GET", "/apis", False, "get", "other"),
    ],
)
def test_request_is_counted_by_verb_and_resource(method: str, path: str, watch: bool, verb: str, resource: str) -> None:
    metrics = MonitoringMetrics()
    metrics.count_request(method, path, 200, watch)
    labels = {"verb": verb, "resource": resource, "code": "200"}
    assert metrics.registry.get_sample_value("gaudi_operator_api_requests_total", labels) == 1


def test_documented_metrics_equal_the_exported_ones() -> None:
    named = {
        name.removesuffix("_total") for name in re.findall(r"^\| `(gaudi_operator_\w+)`", DOCUMENT.read_text(), re.M)
    }
    made = {
        family.name for family in MonitoringMetrics().registry.collect() if family.name.startswith("gaudi_operator_")
    }
    assert named == made
