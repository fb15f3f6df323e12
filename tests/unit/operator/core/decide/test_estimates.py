"""Scenarios of decide() for admission by estimates."""

from typing import Any

from gaudi_runtime.contract.report import Phase, PhaseProgress
from tests.support.builders import copied
from tests.support.conformance import violations
from tests.support.forecasts import on_a_card, seed
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, served, status

PASSES = {"minCapturedPromptPercent": 62}


def message(cluster: Cluster, kind: str) -> str:
    found = next(each for each in status(cluster)["conditions"] if each["type"] == kind)
    return str(found["message"])


def seed_pod(captured: int) -> dict[str, Any]:
    """Return the report of a pod of the reference deployment."""
    return {
        "prompt": PhaseProgress(planned=24, warmed=24, captured=captured),
        "decode": PhaseProgress(planned=48, warmed=48, captured=48),
    }


def test_simulation_below_its_thresholds_creates_no_pod() -> None:
    cluster = Cluster(resource(**seed()))
    assert cluster.operate().actions == ()
    assert condition(cluster, "PlanAccepted") == ("False", "ThresholdsUnreachable")
    assert condition(cluster, "Stalled") == ("True", "ThresholdsUnreachable")
    assert "`gaudi-plan forecast --from-cluster tiny -n models` finds" in message(cluster, "PlanAccepted")
    assert status(cluster)["plan"]["capturedPercent"] == {"prompt": 62, "decode": 100}
    assert violations(cluster.resource) == []


def test_reachable_threshold_lets_the_simulation_start() -> None:
    cluster = Cluster(resource(**seed()))
    cluster.operate()
    cluster.change(readiness=PASSES)
    cluster.operate()
    cluster.controllers()
    assert condition(cluster, "PlanAccepted") == ("True", "Accepted")
    assert len(pod_names(cluster)) == 1


def test_refusal_by_an_estimate_keeps_serving_pods() -> None:
    cluster = served()
    before = copied(cluster.kind("Pod"))
    cluster.change(**seed())
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    assert cluster.kind("Pod") == before
    assert condition(cluster, "PlanAccepted") == ("False", "ThresholdsUnreachable")
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")


def test_estimate_does_not_refuse_a_running_revision() -> None:
    """Changed thresholds are compared with the captured graphs that the running pods report."""
    cluster = Cluster(resource(**seed(readiness=PASSES)))
    cluster.settle()
    cluster.change(readiness={"minCapturedPromptPercent": 100})
    cluster.operate()
    assert condition(cluster, "PlanAccepted") == ("True", "Accepted")


def test_warning_is_reported_and_pods_start() -> None:
    cluster = Cluster(resource(**on_a_card()))
    plan = cluster.operate()
    cluster.controllers()
    assert condition(cluster, "PlanAccepted") == ("Unknown", "AcceptedAgainstEstimate")
    assert "PlanAgainstEstimate" in [event.reason for event in plan.events]
    assert len(pod_names(cluster)) == 1


def test_warning_ends_after_a_pod_has_measured() -> None:
    cluster = Cluster(resource(**on_a_card()))
    cluster.operate()
    cluster.controllers()
    cluster.report(pod_names(cluster)[0], Phase.SERVING, elapsed_seconds=61.0, **seed_pod(24))
    cluster.operate()
    assert condition(cluster, "PlanAccepted") == ("True", "Accepted")
    assert message(cluster, "PlanAccepted") == (
        f"24 prompt and 48 decode graphs, 61 s from start to serving: measured by pod {pod_names(cluster)[0]}."
    )
    assert status(cluster)["plan"]["basis"] == "Measured"


def test_measured_values_are_kept_after_an_operator_restart() -> None:
    cluster = served()
    measured = copied(status(cluster)["plan"])
    cluster.reports.clear()
    cluster.operate()
    assert status(cluster)["plan"] == measured


def test_new_revision_is_estimated_again() -> None:
    cluster = served()
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    assert status(cluster)["plan"]["basis"] == "Counted"
