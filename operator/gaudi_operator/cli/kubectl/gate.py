"""`kubectl gaudi gate open`: open the readiness gate of a warm pod while no operator runs.

The judgement is that of the operator, so the operator keeps the gate open when it returns.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, SelectedCluster, with_cluster
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import gate_condition
from gaudi_operator.core.gate.judgement import judge_gate
from gaudi_operator.core.gate.thresholds import explain_threshold_shortfall
from gaudi_operator.core.names import GATE, NAME_LABEL
from gaudi_operator.core.observed import Manifest, Observed, ObservedReport
from gaudi_operator.core.pods.pod_view import PodView, read_pod_views
from gaudi_runtime.contract.ports import WARMUP_PATH
from gaudi_runtime.contract.report import WarmupReport

PodName = Annotated[str, typer.Argument(metavar="POD", help="Name of the pod.")]


@with_cluster
def open_gate(selection: SelectedCluster, pod: PodName) -> None:
    """Open the readiness gate of a warm pod while no operator runs.

    The command does nothing unless the running container of the pod itself reports that it is warm.
    """
    cluster, now = selection.cluster, datetime.now(UTC)
    manifest = cluster.find_pod(pod)
    if manifest is None:
        raise ResourceCommandError(f"there is no pod {pod} of a GaudiInference in namespace {cluster.namespace}")
    name = manifest["metadata"]["labels"][NAME_LABEL]
    resource = cluster.fetch_inference(name)
    try:
        report = WarmupReport.model_validate_json(cluster.query_pod(name, pod, WARMUP_PATH))
    except ValidationError as error:
        raise ResourceCommandError(f"the answer of pod {pod} is not a report of its warm-up") from error
    # Read the pod again. If its container has restarted since the first read, the report may be from either container.
    fetched = ObservedReport(gate_container_id(manifest, now), now, report)
    gate = gate_to_open(cluster.read_pod(name, pod), fetched, resource, now)
    if gate is None:
        typer.echo(f"The gate of pod/{pod} is already open")
        return
    cluster.patch_pod_status(name, pod, gate_patch(manifest, gate, now))
    typer.echo(f"pod/{pod} gate opened: {gate.message}")


def gate_container_id(pod: Manifest, now: datetime) -> str:
    """Return the ID of a pod's runtime container, or an empty text if the container has not started."""
    (view,) = read_pod_views(Observed({}, pods=(pod,), now=now))
    return view.container.id if view.container else ""


def gate_to_open(pod: Manifest, report: ObservedReport, resource: Manifest, now: datetime) -> SetGate | None:
    """Return the write that opens the gate of a pod, or None if the gate is already open.

    Raises ResourceCommandError with the reason if the operator would not open the gate.
    """
    (view,) = read_pod_views(Observed(resource, pods=(pod,), reports={pod["metadata"]["uid"]: report}, now=now))
    readiness = _read_readiness(resource)
    if refusal := _explain_refusal(pod, view, readiness):
        raise ResourceCommandError(f"pod {view.name} is not ready for traffic: {refusal}")
    gate = judge_gate(view, readiness, Deadlines(now))
    if gate is None and not view.is_gate_open:
        raise ResourceCommandError(f"the gate of pod {view.name} closed a moment ago, so an operator is running")
    return gate


def gate_patch(pod: Manifest, gate: SetGate, now: datetime) -> dict[str, Any]:
    """Return the patch of the pod's status that writes the gate. The UID excludes another pod with the same name."""
    return {"metadata": {"uid": gate.uid}, "status": {"conditions": [gate_condition(pod, gate, now)]}}


def _read_readiness(resource: Manifest) -> Readiness:
    try:
        return Readiness.model_validate(resource["spec"].get("readiness") or {})
    except ValidationError as error:
        raise ResourceCommandError(
            "spec.readiness has values that this release of kubectl-gaudi does not know"
        ) from error


def _explain_refusal(pod: Manifest, view: PodView, readiness: Readiness) -> str | None:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if GATE not in {_condition_type(gate) for gate in gates}:
        return f"it has no readiness gate {GATE}, so this command cannot open one"
    if not view.is_active:
        return "it is terminating or has ended"
    if view.report is None:
        return view.ignored_reason or "its container is not running"
    shortfall = explain_threshold_shortfall(view.report, readiness)
    return shortfall[1] if shortfall else None


def _condition_type(readiness_gate: Mapping[str, Any]) -> str:
    return str(readiness_gate.get("conditionType"))
