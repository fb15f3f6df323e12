"""Changes that start a reconcile, and the delay for each change."""

import pytest

from gaudi_operator.core.names import CONTAINER, GATE
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.status.status_builder import MANY_PODS_SECONDS, STATUS_DELAY_SECONDS
from gaudi_operator.shell.kinds import CLASS, POD, RESOURCE, SERVICE
from gaudi_operator.shell.reconciling.triggers import (
    FOLLOW_SECONDS,
    PODS_SECONDS,
    trigger_delay_after_change,
    trigger_delay_after_report,
)
from tests.unit.operator.shell.memory import Memory, manifest
from tests.world.api import Object


def resource(**status: object) -> Manifest:
    """Return a resource with that status."""
    return Memory().resource(**status)


def pod(gate: str, container: str = "1") -> Object:
    """Return a pod whose container is running."""
    runs = {"name": CONTAINER, "containerID": f"containerd://{container}", "state": {"running": {}}}
    conditions = [{"type": GATE, "status": gate}]
    status = {"podIP": "10.0.0.1", "containerStatuses": [runs], "conditions": conditions}
    return Memory().exists(manifest(POD, "a", spec={}, status=status))


@pytest.mark.parametrize("kind", [RESOURCE, CLASS])
def test_change_by_a_user_is_reconciled_immediately(kind: object) -> None:
    changed = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}  # type: ignore[attr-defined]
    assert trigger_delay_after_change(None, changed, resource()) == 0


def test_changes_of_children_are_batched() -> None:
    assert trigger_delay_after_change(None, manifest(SERVICE, "tiny"), resource()) == FOLLOW_SECONDS


@pytest.mark.parametrize(("updated", "seconds"), [(2, PODS_SECONDS), (1, FOLLOW_SECONDS)])
def test_pod_changes_are_reconciled_sooner_during_a_rollout(updated: int, seconds: float) -> None:
    assert trigger_delay_after_change(None, pod("False"), resource(replicas=2, updatedReplicas=updated)) == seconds


@pytest.mark.parametrize(("gate", "seconds"), [("True", 0), ("False", PODS_SECONDS)])
def test_new_container_behind_an_open_gate_is_reconciled_immediately(gate: str, seconds: float) -> None:
    assert trigger_delay_after_change(pod(gate), pod(gate, "2"), resource()) == seconds


def test_pod_change_with_the_same_container_is_batched() -> None:
    assert trigger_delay_after_change(pod("True"), pod("True"), resource()) == PODS_SECONDS


def test_decisive_report_is_reconciled_immediately() -> None:
    assert trigger_delay_after_report(True, resource(replicas=1)) == 0


@pytest.mark.parametrize(("replicas", "seconds"), [(1, STATUS_DELAY_SECONDS), (1000, MANY_PODS_SECONDS)])
def test_progress_is_reconciled_as_often_as_the_status_is_written(replicas: int, seconds: float) -> None:
    assert trigger_delay_after_report(False, resource(replicas=replicas)) == seconds
