"""Writes the Grafana dashboards of the chart from this list of panels: python -m scripts.dashboards [--check].

fleet     all models of a cluster, and the operator that serves them
model     one model: warm-up, traffic by bucket, padding, requests
upgrade   one upgrade: both revisions, gates, and the effect on requests

Series that begin with gaudi_inference_ or gaudi_operator_ come from the operator. All other series come from the pods,
through the PodMonitor, which adds labels with model and revision.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.chart_docs import CHART
from scripts.generated import write_or_check

FOLDER = CHART / "files" / "dashboards"
WIDE, HALF, THIRD, HEIGHT = 24, 12, 8, 8
"""The sizes of panels in columns and rows of Grafana's grid."""

MODEL = 'namespace=~"$namespace", name=~"$name"'
PODS = 'namespace=~"$namespace", inference_gaudi_dev_name=~"$name"'
READY = 'gaudi_inference_condition{type="Ready"}'
READY_REASON = f'gaudi_inference_condition{{type="Ready", {MODEL}}} == 1'


def _padding_ratio(metric: str, phase: str) -> str:
    padded, real = (
        f'sum(rate({metric}{{phase="{phase}", size="{size}", {PODS}}}[15m]))' for size in ("padded", "real")
    )
    return f"{padded} / {real}"


@dataclass(frozen=True)
class Panel:
    """A panel with its queries by legend. `kind` is Grafana's type of panel. `unit` is the unit of the values."""

    title: str
    queries: dict[str, str]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = HALF
    description: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Dashboard:
    """A dashboard. `variables` maps names to queries of the label values from which a user selects."""

    uid: str
    title: str
    panels: Sequence[Panel]
    variables: dict[str, str] = field(default_factory=dict)


OF_A_MODEL = {
    "namespace": "label_values(gaudi_inference_condition, namespace)",
    "name": 'label_values(gaudi_inference_condition{namespace=~"$namespace"}, name)',
}

FLEET = Dashboard(
    "gaudi-fleet",
    "Gaudi inference: fleet",
    (
        Panel("Models by status", {"{{reason}}": f"sum by (reason) ({READY})"}, "stat", width=THIRD),
        Panel(
            "Models that are not Ready",
            {"{{namespace}}/{{name}}": 'gaudi_inference_condition{type="Ready", status!="True"} == 1'},
            "table",
            width=THIRD,
            options={"instant": True},
        ),
        Panel(
            "Models that need a user action",
            {"{{namespace}}/{{name}}": 'gaudi_inference_condition{type="Stalled", status="True"} == 1'},
            "table",
            width=THIRD,
            description="See docs/how-to/troubleshoot.md, GaudiModelStalled, for the next steps.",
            options={"instant": True},
        ),
        Panel(
            "Ready replicas / desired replicas",
            {
                "{{namespace}}/{{name}}": 'gaudi_inference_replicas{state="ready"} '
                '/ ignoring(state) (gaudi_inference_replicas{state="desired"} > 0)'
            },
            unit="percentunit",
        ),
        Panel(
            "Warm-up of the least advanced pod",
            {"{{namespace}}/{{name}}": "gaudi_inference_warmup_percent"},
            unit="percent",
        ),
        Panel(
            "Captured graphs of the plan",
            {"{{namespace}}/{{name}} {{phase}}": "gaudi_inference_captured_percent"},
            unit="percent",
        ),
        Panel(
            "Requests that waited for a compile, last 5 minutes",
            {
                "{{namespace}}/{{inference_gaudi_dev_name}}": "sum by (namespace, inference_gaudi_dev_name) "
                "(increase(gaudi_recompiles_since_ready_total[5m]))"
            },
        ),
        Panel(
            "Generated tokens a second",
            {
                "{{inference_gaudi_dev_name}}": "sum by (inference_gaudi_dev_name) "
                "(rate(vllm:generation_tokens_total[5m]))"
            },
        ),
        Panel(
            "Sequences that wait for a place",
            {"{{inference_gaudi_dev_name}}": "sum by (inference_gaudi_dev_name) (gaudi_sequences_waiting)"},
            description="See docs/how-to/troubleshoot.md, GaudiModelQueueIsLong, for the next steps.",
        ),
        Panel(
            "Time to the first token, 95th percentile",
            {
                "{{inference_gaudi_dev_name}}": "histogram_quantile(0.95, sum by (inference_gaudi_dev_name, le) "
                "(rate(vllm:time_to_first_token_seconds_bucket[5m])))"
            },
            unit="s",
        ),
        Panel(
            "From a pod's last report to its open gate",
            {
                "p50": "histogram_quantile(0.5, sum by (le) (rate(gaudi_operator_gate_seconds_bucket[1h])))",
                "p99": "histogram_quantile(0.99, sum by (le) (rate(gaudi_operator_gate_seconds_bucket[1h])))",
                "p99 until it is sent": (
                    "histogram_quantile(0.99, sum by (le) (rate(gaudi_operator_gate_sent_seconds_bucket[1h])))"
                ),
            },
            unit="s",
        ),
        Panel(
            "Resources in the queue for a reconcile",
            {"waiting": "max(gaudi_operator_queue_depth)", "pods that warm up": "max(gaudi_operator_pods_warming)"},
        ),
        Panel(
            "Requests of the operator to the API server",
            {
                "{{verb}} {{resource}}": "sum by (verb, resource) "
                '(rate(gaudi_operator_api_requests_total{verb!="watch"}[5m]))'
            },
            unit="reqps",
        ),
    ),
)

ONE_MODEL = Dashboard(
    "gaudi-model",
    "Gaudi inference: one model",
    (
        Panel("Status", {"{{reason}}": READY_REASON}, "stat", width=THIRD),
        Panel(
            "Warm-up",
            {"{{name}}": f"gaudi_inference_warmup_percent{{{MODEL}}}"},
            "gauge",
            "percent",
            THIRD,
        ),
        Panel(
            "Captured graphs",
            {"{{phase}}": f"gaudi_inference_captured_percent{{{MODEL}}}"},
            "gauge",
            "percent",
            THIRD,
        ),
        Panel(
            "Buckets of each pod, in percent of the plan",
            {
                "{{pod}} {{phase}} {{state}}": f'100 * gaudi_buckets{{state=~"warmed|captured", {PODS}}} '
                f'/ ignoring(state) group_left () (gaudi_buckets{{state="planned", {PODS}}} > 0)'
            },
            unit="percent",
        ),
        Panel(
            "Batches that met a warm graph",
            {
                "{{phase}}": f"sum by (phase) (rate(gaudi_graph_hits_total{{{PODS}}}[5m])) "
                f"/ (sum by (phase) (rate(gaudi_graph_hits_total{{{PODS}}}[5m])) "
                f"+ sum by (phase) (rate(gaudi_cold_shapes_total{{{PODS}}}[5m])))"
            },
            unit="percentunit",
        ),
        Panel(
            "Prompt batches by bucket",
            {
                "{{bucket}}": "sum by (bucket) "
                f'(rate(gaudi_bucket_batches_total{{phase="prompt", {PODS}}}[$__rate_interval]))'
            },
            "heatmap",
            width=HALF,
            description="A row is a bucket: batch size x query tokens x KV blocks of cached context.",
        ),
        Panel(
            "Decode batches by bucket",
            {
                "{{bucket}}": "sum by (bucket) "
                f'(rate(gaudi_bucket_batches_total{{phase="decode", {PODS}}}[$__rate_interval]))'
            },
            "heatmap",
            width=HALF,
            description="A row is a bucket: batch size x 1 x KV blocks of the batch.",
        ),
        Panel(
            "Compiles that requests waited for",
            {"{{phase}}": f"sum by (phase) (increase(gaudi_recompiles_since_ready_total{{{PODS}}}[5m]))"},
        ),
        Panel(
            "Padding: computed tokens / requested tokens",
            {
                "tokens of prompts": _padding_ratio("gaudi_batch_tokens_total", "prompt"),
                "KV blocks of decode": _padding_ratio("gaudi_batch_blocks_total", "decode"),
            },
            description="1.0 means no padding. kubectl gaudi plan learn chooses buckets for the observed traffic.",
        ),
        Panel(
            "Tokens a second",
            {
                "prompt": f"sum(rate(vllm:prompt_tokens_total{{{PODS}}}[5m]))",
                "generated": f"sum(rate(vllm:generation_tokens_total{{{PODS}}}[5m]))",
            },
        ),
        Panel(
            "Time to the first token",
            {
                "p50": "histogram_quantile(0.5, sum by (le) "
                f"(rate(vllm:time_to_first_token_seconds_bucket{{{PODS}}}[5m])))",
                "p99": "histogram_quantile(0.99, sum by (le) "
                f"(rate(vllm:time_to_first_token_seconds_bucket{{{PODS}}}[5m])))",
            },
            unit="s",
        ),
        Panel(
            "Sequences that run and wait",
            {
                "running": f"sum(gaudi_sequences_running{{{PODS}}})",
                "waiting": f"sum(gaudi_sequences_waiting{{{PODS}}})",
            },
        ),
        Panel(
            "KV blocks in use",
            {"{{pod}}": f"gaudi_kv_blocks_used{{{PODS}}} / gaudi_kv_blocks{{{PODS}}}"},
            unit="percentunit",
        ),
        Panel("Bytes of captured graphs", {"{{pod}} {{phase}}": f"gaudi_graph_bytes{{{PODS}}}"}, unit="bytes"),
    ),
    OF_A_MODEL,
)

UPGRADE = Dashboard(
    "gaudi-upgrade",
    "Gaudi inference: upgrade",
    (
        Panel(
            "Revisions",
            {
                "{{current}} {{stable}} {{failed}}": f"gaudi_inference_revision_info{{{MODEL}}}",
            },
            "table",
            width=WIDE,
            options={"instant": True},
        ),
        Panel("Replicas", {"{{state}}": f"gaudi_inference_replicas{{{MODEL}}}"}),
        Panel("Status", {"{{reason}}": READY_REASON}, "state-timeline"),
        Panel(
            "Pods of each revision that serve",
            {
                "{{inference_gaudi_dev_revision}}": "sum by (inference_gaudi_dev_revision) "
                f'(gaudi_phase{{phase="Serving", {PODS}}})'
            },
        ),
        Panel(
            "Warm-up of each pod",
            {
                "{{pod}} ({{inference_gaudi_dev_revision}})": "100 * sum by (pod, inference_gaudi_dev_revision) "
                f'(gaudi_buckets{{state="warmed", {PODS}}}) / sum by (pod, inference_gaudi_dev_revision) '
                f'(gaudi_buckets{{state="planned", {PODS}}} > 0)'
            },
            unit="percent",
        ),
        Panel(
            "Answers by revision",
            {
                "{{inference_gaudi_dev_revision}} {{code}}": "sum by (inference_gaudi_dev_revision, code) "
                f"(rate(gaudi_requests_total{{{PODS}}}[1m]))"
            },
            unit="reqps",
        ),
        Panel(
            "Batches that met no warm graph, by revision",
            {
                "{{inference_gaudi_dev_revision}}": "sum by (inference_gaudi_dev_revision) "
                f"(increase(gaudi_cold_shapes_total{{{PODS}}}[5m]))"
            },
        ),
        Panel(
            "Time to the first token by revision, p99",
            {
                "{{inference_gaudi_dev_revision}}": "histogram_quantile(0.99, "
                "sum by (le, inference_gaudi_dev_revision) "
                f"(rate(vllm:time_to_first_token_seconds_bucket{{{PODS}}}[5m])))"
            },
            unit="s",
        ),
        Panel(
            "Conditions",
            {"{{type}} {{status}}": f"max without (reason) (gaudi_inference_condition{{{MODEL}}}) == 1"},
            "state-timeline",
        ),
    ),
    OF_A_MODEL,
)

DASHBOARDS = {"fleet": FLEET, "model": ONE_MODEL, "upgrade": UPGRADE}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def document(dashboard: Dashboard) -> dict[str, Any]:
    """Return the JSON model that Grafana imports."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["gaudi", "inference"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_panels(dashboard.panels)),
    }


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for name, query in dashboard.variables.items():
        yield {
            "name": name,
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,  # reload at every change of the time range, because models are created and deleted
            "includeAll": True,
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
        }


def _panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    column = row = 0
    for panel_id, panel in enumerate(panels, start=1):
        if column + panel.width > WIDE:
            column, row = 0, row + HEIGHT
        yield {
            "id": panel_id,
            "title": panel.title,
            "type": panel.kind,
            "datasource": SOURCE,
            "gridPos": {"x": column, "y": row, "w": panel.width, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, **_bounds(panel)}, "overrides": []},
            "targets": list(_targets(panel)),
            **({"description": panel.description} if panel.description else {}),
            **({"options": {"calculate": False, "color": {"scheme": "Spectral"}}} if panel.kind == "heatmap" else {}),
        }
        column += panel.width


def _bounds(panel: Panel) -> dict[str, int]:
    return {"percent": {"min": 0, "max": 100}, "percentunit": {"min": 0, "max": 1}}.get(panel.unit, {})


def _targets(panel: Panel) -> Iterator[dict[str, Any]]:
    for index, (legend, query) in enumerate(panel.queries.items()):
        instant = panel.options.get("instant", panel.kind in ("stat", "gauge"))
        yield {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
            "instant": instant,
            "range": not instant,
            **({"format": "table"} if panel.kind == "table" else {}),
        }


def files() -> dict[Path, str]:
    """Return the text of each dashboard by its file."""
    return {FOLDER / f"{name}.json": json.dumps(document(board), indent=1) + "\n" for name, board in DASHBOARDS.items()}


if __name__ == "__main__":
    sys.exit(write_or_check(files()))
