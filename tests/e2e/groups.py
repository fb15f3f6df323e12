"""Functions for a resource whose only group has a pod on each of two nodes."""

from typing import Any

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_runtime.contract.ports import WARMUP_PATH
from gaudi_runtime.contract.report import WarmupReport
from tests.e2e.pods import Pods


def leader_and_worker(pods: Pods) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two pods of the only group of the current revision."""
    current = pods.kubectl("get", "gi", pods.name, "-o", "jsonpath={.status.revision.current}")
    mine = [pod for pod in pods.now() if pod["metadata"]["labels"][REVISION_LABEL] == current]
    leader, worker = sorted(mine, key=lambda pod: str(pod["metadata"]["name"]))
    assert worker["metadata"]["name"] == f"{leader['metadata']['name']}-1"
    return leader, worker


def report_of(pods: Pods, leader: dict[str, Any]) -> WarmupReport:
    """Return the leader's current report."""
    metadata = leader["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}:8001/proxy{WARMUP_PATH}"
    return WarmupReport.model_validate_json(pods.kubectl("get", "--raw", path))


def gates(state: dict[str, Any]) -> list[bool]:
    """Return, for each pod in the status, whether its gate is open."""
    return [pod["gate"] for pod in state.get("status", {}).get("pods", [])]
