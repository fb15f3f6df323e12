"""The metrics of every resource's status. An unreadable status has no series."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gaudi_operator.shell.metrics.resource_metrics import ResourceMetrics
from tests.world.api import Object

STATUS: dict[str, Any] = {
    "conditions": [{"type": "Ready", "status": "False", "reason": "RollingOut", "message": "x"}],
    "replicas": 3,
    "expectedReadyReplicas": 3,
    "updatedReplicas": 1,
    "readyReplicas": 2,
    "capturedPercent": {"prompt": 100, "decode": 97},
    "warmup": {"percent": 42, "eta": "2026-08-01T12:00:00Z"},
    "revision": {"current": "new", "stable": "old"},
    "revisions": [{"name": "new", "number": 2}, {"name": "bad", "number": 1, "reason": "ContainerFailed"}],
}


def series(*resources: Object) -> set[str]:
    """Return the lines of the metrics exposition without their common prefix."""
    registry = CollectorRegistry()
    registry.register(ResourceMetrics(lambda: resources))
    lines = generate_latest(registry).decode().splitlines()
    return {line.removeprefix("gaudi_inference_") for line in lines if not line.startswith("#")}


def resource(status: Any, name: str = "chat") -> Object:
    return {"metadata": {"namespace": "models", "name": name}, "spec": {"replicas": 2}, "status": status}


@pytest.mark.parametrize(
    "line",
    [
        'condition{name="chat",namespace="models",reason="RollingOut",status="False",type="Ready"} 1.0',
        'replicas{name="chat",namespace="models",state="desired"} 2.0',
        'replicas{name="chat",namespace="models",state="updated"} 1.0',
        'replicas{name="chat",namespace="models",state="lost"} 1.0',
        'captured_percent{name="chat",namespace="models",phase="decode"} 97.0',
        'warmup_percent{name="chat",namespace="models"} 42.0',
        'warmup_eta_timestamp_seconds{name="chat",namespace="models"} 1.7855856e+09',
        'revision_info{current="new",failed="bad",name="chat",namespace="models",stable="old"} 1.0',
    ],
)
def test_status_is_shown_as_series(line: str) -> None:
    assert line in series(resource(STATUS))


def test_resource_without_a_status_shows_desired_replicas() -> None:
    assert 'replicas{name="chat",namespace="models",state="desired"} 2.0' in series(resource(None))


def test_long_label_is_truncated() -> None:
    shown = series(resource({"revision": {"current": "x" * 10_000, "stable": "old"}}))
    assert f'revision_info{{current="{"x" * 64}",failed="",name="chat",namespace="models",stable="old"}} 1.0' in shown


def test_reason_that_the_operator_does_not_know_is_other() -> None:
    said = {"type": "Stalled", "status": "True", "reason": "MadeUpByAPod"}
    shown = series(resource({"conditions": [said]}))
    assert 'condition{name="chat",namespace="models",reason="Other",status="True",type="Stalled"} 1.0' in shown


@pytest.mark.parametrize("status", [[], "text", {"conditions": 7}, {"warmup": {"percent": "x"}}, {"revisions": [1]}])
def test_unreadable_status_does_not_affect_other_resources(status: Any) -> None:
    shown = series(resource(status, "odd"), resource(STATUS))
    assert 'warmup_percent{name="chat",namespace="models"} 42.0' in shown
