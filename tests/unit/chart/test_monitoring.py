"""Alerts, runbooks, dashboards, and scrape permissions of the chart."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from gaudi_operator.core.names import NAME_LABEL, REVISION_LABEL
from gaudi_operator.settings import Settings
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_runtime.contract.ports import STATUS_PORT_NAME
from scripts.chart_docs import CHART, ROOT
from scripts.dashboards import DASHBOARDS, document
from tests.unit.chart.rendering import Object, of_kind, only, render

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm

ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
RUNBOOKS = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
SECTIONS = re.findall(r"^### (Gaudi\w+)$", RUNBOOKS, re.MULTILINE)
PEERS: list[Object] = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert [each["alert"] for each in ALERTS] == SECTIONS


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each["alert"])
def test_alert_uses_metrics_of_the_operator_or_pods(alert: dict[str, Any]) -> None:
    named = set(re.findall(r"\b(?:gaudi_|vllm:)\w+", alert["expr"]))
    text = generate_latest(MonitoringMetrics().registry).decode()
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    known |= set(re.findall(r"^\| `(gaudi_(?!operator|inference)\w+|vllm:\w+)`", page, re.MULTILINE))
    assert named
    assert {name.removesuffix("_bucket") for name in named} <= known


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each["alert"])
def test_alert_has_description_and_severity(alert: dict[str, Any]) -> None:
    assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}
    assert set(alert["annotations"]) == {"summary", "description"}
    assert alert["labels"]["severity"] in ("info", "warning", "critical")


def queries() -> list[str]:
    panels = [panel for each in DASHBOARDS.values() for panel in each.panels]
    return [query for panel in panels for query in panel.queries.values()]


@pytest.mark.parametrize("query", queries())
def test_panel_queries_documented_metrics(query: str) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    known = set(re.findall(r"^\| `((?:gaudi_|vllm:)\w+)`", page, re.MULTILINE))
    named = set(re.findall(r"(?:gaudi_|vllm:)\w+(?=[{\[ )]|$)", re.sub(r"inference_gaudi_dev_\w+", "", query)))
    assert named
    assert {name.removesuffix("_bucket") for name in named} <= known


def test_configmap_contains_each_dashboard_in_grafana_import_format() -> None:
    held = only(render(monitoring={"dashboards": {"enabled": True}}), "ConfigMap")
    assert held["metadata"]["labels"]["grafana_dashboard"] == "1"
    read = {name: json.loads(text) for name, text in held["data"].items()}
    assert read == {f"gaudi-{name}.json": document(each) for name, each in DASHBOARDS.items()}


def test_panels_fill_rows_of_the_grid_without_overlap() -> None:
    for dashboard in DASHBOARDS.values():
        taken = [
            (each["gridPos"]["x"] + across, each["gridPos"]["y"])
            for each in document(dashboard)["panels"]
            for across in range(each["gridPos"]["w"])
        ]
        assert len(taken) == len(set(taken))
        assert max(across for across, _ in taken) == 23


def test_rules_link_each_alert_to_its_runbook() -> None:
    rule = only(render(monitoring={"rules": {"enabled": True, "runbooks": "https://example.com/"}}), "PrometheusRule")
    links = {
        each["alert"]: each["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for each in group["rules"]
    }
    assert links == {
        each["alert"]: f"https://example.com/docs/how-to/troubleshoot.md#{each['alert'].lower()}" for each in ALERTS
    }


def rules_of(**rules: Any) -> dict[str, Any]:
    rule = only(render(monitoring={"rules": {"enabled": True, **rules}}), "PrometheusRule")
    return {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"]}


def test_alerts_have_no_runbook_url_by_default() -> None:
    assert [name for name, each in rules_of().items() if "runbook_url" in each["annotations"]] == []


def test_duration_severity_and_labels_of_an_alert_are_configurable() -> None:
    change = {"for": "15m", "severity": "info", "labels": {"team": "ml"}}
    found = rules_of(alerts={"GaudiModelStalled": change})
    assert found["GaudiModelStalled"]["for"] == "15m"
    assert found["GaudiModelStalled"]["labels"] == {"severity": "info", "team": "ml"}
    assert found["GaudiModelDegraded"]["labels"] == {"severity": "warning"}


def test_disabled_alert_is_omitted() -> None:
    assert rules_of().keys() - rules_of(alerts={"GaudiModelDegraded": {"enabled": False}}).keys() == {
        "GaudiModelDegraded"
    }


def test_settings_of_an_unknown_alert_are_refused() -> None:
    with pytest.raises(Exception, match="no alert has this name"):
        rules_of(alerts={"GaudiModelStaled": {"enabled": False}})


def test_pod_monitor_scrapes_the_status_port_of_all_models() -> None:
    monitor = only(render(monitoring={"podMonitor": {"enabled": True}}), "PodMonitor")["spec"]
    assert monitor["namespaceSelector"] == {"any": True}
    assert monitor["selector"] == {"matchExpressions": [{"key": NAME_LABEL, "operator": "Exists"}]}
    assert monitor["podMetricsEndpoints"] == [{"port": STATUS_PORT_NAME, "interval": "30s"}]
    assert monitor["podTargetLabels"] == [NAME_LABEL, REVISION_LABEL]


def test_pod_monitor_selects_the_watched_namespaces() -> None:
    rendered = render(watchNamespaces=["a", "b"], monitoring={"podMonitor": {"enabled": True}})
    assert only(rendered, "PodMonitor")["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


@pytest.mark.parametrize(
    ("kind", "section", "endpoints"),
    [
        ("PodMonitor", lambda said: {"monitoring": {"podMonitor": said}}, "podMetricsEndpoints"),
        ("ServiceMonitor", lambda said: {"metrics": {"serviceMonitor": said}}, "endpoints"),
    ],
)
def test_monitor_has_configured_relabelings(kind: str, section: Callable[[Object], Object], endpoints: str) -> None:
    before, after = [{"targetLabel": "cluster", "replacement": "a"}], [{"regex": "pod", "action": "labeldrop"}]
    said = {"enabled": True, "relabelings": before, "metricRelabelings": after}
    (endpoint,) = only(render(**section(said)), kind)["spec"][endpoints]
    assert (endpoint["relabelings"], endpoint["metricRelabelings"]) == (before, after)


def test_default_release_has_no_prometheus_operator_objects() -> None:
    assert not [each for kind in ("PodMonitor", "PrometheusRule", "ServiceMonitor") for each in of_kind(render(), kind)]


@pytest.mark.parametrize(
    ("said", "protocol", "share"),
    [
        ({"endpoint": "http://collector:4317"}, "grpc", 100),
        ({"endpoint": "http://collector:4317", "protocol": "http/protobuf", "samplingPercent": 5}, "http/protobuf", 5),
    ],
    ids=["endpoint alone", "all of it"],
)
def test_operator_parses_the_collector_setting_of_the_chart(
    monkeypatch: pytest.MonkeyPatch, said: Object, protocol: str, share: int
) -> None:
    set_operator_environment(monkeypatch, monitoring={"tracing": said})
    tracing = Settings().installation_defaults().tracing
    assert tracing is not None
    assert (tracing.collector.protocol, tracing.sampling_percent) == (protocol, share)


def test_operator_has_no_collector_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    set_operator_environment(monkeypatch)
    assert Settings().installation_defaults().tracing is None


def set_operator_environment(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Set the operator's environment as the chart does."""
    (container,) = only(render(**values), "Deployment")["spec"]["template"]["spec"]["containers"]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each.get("value", "x"))


def test_operator_parses_the_scrape_sources_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    set_operator_environment(monkeypatch, monitoring={"from": PEERS})
    (peer,) = Settings().installation_defaults().monitoring_from
    assert peer == PEERS[0]


def test_operator_parses_the_gateways_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    set_operator_environment(monkeypatch, gateways={"from": PEERS})
    (peer,) = Settings().installation_defaults().gateways_from
    assert peer == PEERS[0]
