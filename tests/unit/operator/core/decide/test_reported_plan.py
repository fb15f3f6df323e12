"""Scenarios of decide() for the plan that pods report."""

from typing import Any

from gaudi_runtime.contract.report import CapturableGraphsReport, Phase, PhaseProgressReport
from tests.support.builders import copied
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, served, status

ALL = {"minCapturedPromptPercent": 100}


def warming(prompt: int, **spec: Any) -> Cluster:
    """Return a new resource whose pod has planned 24 prompts, of which limits leave graphs for `prompt`."""
    cluster = Cluster(resource(**spec))
    cluster.operate()
    cluster.controllers()
    planned = PhaseProgressReport(planned=24, warmed=24)
    capturable = CapturableGraphsReport(prompt=prompt, decode=24)
    cluster.report(pod_names(cluster)[0], Phase.CAPTURING, prompt=planned, decode=planned, capturable=capturable)
    cluster.operate()
    return cluster


def test_pod_that_cannot_reach_its_thresholds_fails_before_captures() -> None:
    cluster = warming(12, readiness=ALL)
    assert condition(cluster, "Stalled") == ("True", "ThresholdsUnreachable")
    [stalled] = [each for each in status(cluster)["conditions"] if each["type"] == "Stalled"]
    assert stalled["message"].endswith(
        "cannot receive traffic: spec.readiness requires 100 % of the prompt graphs, but limits in the spec leave only "
        "12 of 24. Raise --max-cudagraph-capture-size in spec.engine.settings, or lower the percentages in "
        "spec.readiness."
    )


def test_reachable_thresholds_are_no_problem() -> None:
    assert condition(warming(24, readiness=ALL), "Stalled")[0] == "False"


def test_thresholds_do_not_matter_if_pods_serve_on_shortfall() -> None:
    assert condition(warming(12, readiness={**ALL, "onShortfall": "ServeAndWarn"}), "Stalled")[0] == "False"


def test_warming_pod_reports_its_plan() -> None:
    assert status(warming(24))["plan"]["promptBuckets"] == 24


def test_measured_values_are_kept_after_an_operator_restart() -> None:
    cluster = served()
    measured = copied(status(cluster)["plan"])
    cluster.reports.clear()
    cluster.operate()
    assert status(cluster)["plan"] == measured


def test_new_revision_has_no_figures_before_its_pods_report() -> None:
    cluster = served()
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    assert "plan" not in status(cluster)
