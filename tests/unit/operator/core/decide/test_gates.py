"""Readiness gates in complete reconciles: order of writes, restarted containers, and missing reports."""

from dataclasses import replace
from datetime import timedelta

from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.decide import decide
from gaudi_operator.core.names import GATE
from gaudi_runtime.contract.report import Phase
from tests.support.builders import copied
from tests.unit.operator.core.stories import condition, pod_names, served, status


def test_gates_are_written_before_anything_else() -> None:
    cluster = served()
    name = pod_names(cluster)[0]
    cluster.change(service={"port": 8080})
    cluster.restart(name)
    assert isinstance(cluster.operate().actions[0], SetGate)


def test_restarted_container_loses_its_gate_until_warm() -> None:
    cluster = served()
    name = pod_names(cluster)[0]
    cluster.restart(name)
    cluster.operate()
    cluster.kubelet()
    assert status(cluster)["readyReplicas"] == 1
    cluster.report(name, Phase.COMPILING)
    cluster.operate()
    assert condition(cluster, "Degraded") == ("True", "ReplicasLost")
    cluster.settle()
    assert condition(cluster, "Degraded") == ("False", "AsExpected")
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_operator_without_any_report_keeps_status_and_gates() -> None:
    cluster = served()
    before = copied(status(cluster))
    cluster.reports.clear()
    assert cluster.operate().actions == ()
    coverage = [each for each in before["conditions"] if each["type"] != "BucketCoverage"]
    assert [each for each in status(cluster)["conditions"] if each["type"] != "BucketCoverage"] == coverage
    assert status(cluster)["capturedPercent"] == {"prompt": 100, "decode": 100}


def test_starting_operator_keeps_readiness_before_reports_arrive() -> None:
    cluster = served()
    cluster.reports.clear()
    observed = replace(cluster.observed(), status_written_at=None, status_held_since=None)
    plan = decide(observed, cluster.defaults)
    assert plan.status.model_dump(mode="json", by_alias=True, exclude_none=True) == cluster.resource["status"]
    assert plan.status_held_since == observed.now
    earlier = observed.now - timedelta(seconds=1)
    assert decide(replace(observed, status_held_since=earlier), cluster.defaults).status_held_since == earlier


def test_open_gate_has_the_operators_condition_type() -> None:
    cluster = served(replicas=1)
    (pod,) = cluster.kind("Pod")
    assert GATE in [each["type"] for each in pod["status"]["conditions"]]
    assert pod["spec"]["readinessGates"] == [{"conditionType": GATE}]
