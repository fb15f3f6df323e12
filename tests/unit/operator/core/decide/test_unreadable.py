"""Scenarios of decide() for a spec with values of a newer release, as after a rollback of the operator."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.actions import SetGate
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, served, status

UNKNOWN = "fromTheFuture"
PART = PhaseProgressReport(planned=10, captured=6, warmed=10, left_out_for_memory=4)


def unreadable(**spec: Any) -> Cluster:
    """Return a cluster whose two pods serve, and whose spec then has an unknown execution mode."""
    cluster = served(**spec)
    cluster.change(engine={"executionMode": UNKNOWN})
    cluster.operate()
    return cluster


def drain(cluster: Cluster) -> list[str]:
    """Evict all pods, and return the names of their successors, which do not serve yet."""
    for name in pod_names(cluster):
        cluster.delete("Pod", name)
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
        cluster.kubelet()
    cluster.operate()
    return pod_names(cluster)


def conditions(cluster: Cluster) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status(cluster)["conditions"]}


def test_unreadable_spec_stalls_and_writes_no_object() -> None:
    cluster = served()
    cluster.change(engine={"executionMode": UNKNOWN})
    assert cluster.operate().actions == ()
    assert condition(cluster, "Ready") == ("False", "SpecUnreadable")
    assert condition(cluster, "Stalled") == ("True", "SpecUnreadable")
    assert condition(cluster, "PlanAccepted") == ("False", "SpecUnreadable")
    assert violations(cluster.resource) == []


def test_gates_of_successors_open_while_the_spec_is_unreadable() -> None:
    cluster = unreadable()
    for name in drain(cluster):
        cluster.warm(name)
    cluster.settle()
    assert status(cluster)["readyReplicas"] == 2
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")
    assert condition(cluster, "Degraded") == ("False", "AsExpected")


def test_lost_pods_are_counted_while_the_spec_is_unreadable() -> None:
    cluster = unreadable()
    drain(cluster)
    assert (status(cluster)["readyReplicas"], status(cluster)["expectedReadyReplicas"]) == (0, 2)
    assert condition(cluster, "Available") == ("False", "BelowMinimum")
    assert condition(cluster, "WarmedUp") == ("False", "WarmingUp")
    assert condition(cluster, "Degraded") == ("True", "ReplicasLost")


def test_unreadable_spec_keeps_what_the_status_derives_from_a_spec() -> None:
    cluster = served(autoscaling={"minReplicas": 1, "maxReplicas": 4}, recipeCache={})
    before, conditions_before = status(cluster), conditions(cluster)
    cluster.change(engine={"executionMode": UNKNOWN})
    cluster.operate()
    kept = ("plan", "endpoint", "selector", "recipeCache", "revision", "revisions")
    assert {name: status(cluster)[name] for name in kept} == {name: before[name] for name in kept}
    assert conditions(cluster) == conditions_before | {"Ready": "False", "Stalled": "True", "PlanAccepted": "False"}


def test_new_resource_with_an_unreadable_spec_gets_no_object() -> None:
    cluster = Cluster(resource(engine={"executionMode": UNKNOWN}))
    assert cluster.operate().actions == ()
    assert condition(cluster, "Stalled") == ("True", "SpecUnreadable")
    assert violations(cluster.resource) == []


def test_restarted_container_closes_its_gate_while_the_spec_is_unreadable() -> None:
    cluster = unreadable()
    cluster.restart(pod_names(cluster)[0])
    gates = [action for action in cluster.operate().actions if isinstance(action, SetGate)]
    assert [gate.open for gate in gates] == [False]


@pytest.mark.parametrize("section", [field.alias or name for name, field in GaudiInferenceSpec.model_fields.items()])
def test_gates_open_whichever_section_is_unreadable(section: str) -> None:
    cluster = served()
    cluster.change(**{section: {UNKNOWN: UNKNOWN} if section in ("className", "replicas") else [UNKNOWN]})
    for name in drain(cluster):
        cluster.warm(name)
    actions = cluster.operate().actions
    assert [isinstance(action, SetGate) and action.open for action in actions] == [True, True]
    assert condition(cluster, "Stalled") == ("True", "SpecUnreadable")


@pytest.mark.parametrize("phase", ["prompt", "decode"])
def test_unreadable_thresholds_open_no_gate_of_an_incomplete_pod(phase: str) -> None:
    cluster = served(readiness={"minCapturedPromptPercent": 50, "minCapturedDecodePercent": 50})
    cluster.change(readiness={"onShortfall": UNKNOWN})
    incomplete, complete = drain(cluster)
    cluster.report(incomplete, Phase.SERVING, **{phase: PART})
    cluster.warm(complete)
    assert [gate.pod for gate in cluster.operate().actions if isinstance(gate, SetGate)] == [complete]


def test_unreadable_thresholds_close_no_gate() -> None:
    cluster = served(readiness={"minCapturedDecodePercent": 50})
    name = pod_names(cluster)[0]
    cluster.report(name, Phase.SERVING, decode=PART)
    cluster.operate()
    cluster.change(readiness={"onShortfall": UNKNOWN})
    assert cluster.operate().actions == ()
    assert "message" not in next(row for row in status(cluster)["pods"] if row["name"] == name)


def test_unreadable_spec_closes_no_gate_of_a_recompiling_pod() -> None:
    cluster = unreadable(readiness={"onRecompiles": "CloseGate", "maxRecentRecompiles": 0}, replicas=3)
    cluster.report(pod_names(cluster)[0], Phase.SERVING, recent_recompiles=5)
    assert cluster.operate().actions == ()


def test_corrected_spec_continues_the_rollout() -> None:
    cluster = unreadable()
    cluster.change(engine={"executionMode": "Eager"})
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert condition(cluster, "Stalled") == ("False", "NotStalled")


def test_unreadable_spec_of_another_installation_is_ignored() -> None:
    cluster = unreadable()
    cluster.classes = (gaudi_class(default=True, controller="example.com/other"),)
    before = status(cluster)
    drain(cluster)
    assert status(cluster) == before
