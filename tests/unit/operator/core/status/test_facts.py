"""Facts behind the conditions: lost pods, what pods wait for, paused rollouts, and measured plans."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import ConditionStatus, GaudiInferenceStatus, Revisions
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.condition_table import CONDITIONS
from gaudi_operator.core.status.conditions import FALSE, TRUE, Verdict
from gaudi_runtime.contract.report import PhaseProgressReport
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, inference
from tests.unit.operator.core.states import PAUSED, having_served, serving, state_of, warming

GATED = "SchedulingGated"


def verdict(kind: str, situation: State) -> Verdict:
    found = next(each for each in CONDITIONS if each.type == kind).judge(situation)
    assert found
    return found


def test_unready_pod_with_a_recently_opened_gate_is_not_lost() -> None:
    just_now = gate_condition(True, since=stamp(NOW - timedelta(seconds=2)))
    fresh = view(pod("a", revision="new", conditions=(just_now, condition("Ready", False))))
    assert verdict("Degraded", state_of([fresh])).status is FALSE


def test_unready_pod_with_an_open_gate_is_lost() -> None:
    away = view(pod("a", revision="new", conditions=(gate_condition(True), condition("Ready", False))))
    assert verdict("Degraded", having_served(1, [away])).reason == "ReplicasLost"


def test_deleted_pod_is_lost_until_another_serves() -> None:
    going = view(pod("a", revision="new", conditions=(gate_condition(True),), terminating=True))
    assert verdict("Degraded", having_served(1, [going, warming("b")])).reason == "ReplicasLost"
    assert verdict("Degraded", having_served(1, [going, serving("b")])).status is FALSE


@pytest.mark.parametrize(("serve", "lost"), [(1, False), (0, True)])
def test_pod_removed_by_a_rollout_is_not_lost(serve: int, lost: bool) -> None:
    olds = [serving(f"old-{number}", "old") for number in range(serve)]
    before = GaudiInferenceStatus(expected_ready_replicas=2, revision=Revisions(current="new", stable="old"))
    rolling = state_of([*olds, warming("a")], unavailable=1, previous_status=before)
    assert (verdict("Degraded", rolling).status is TRUE) is lost


def test_waiting_pods_are_counted_by_reason() -> None:
    gated = view(pod("b", revision="new", container=None, conditions=(condition("PodScheduled", False, GATED),)))
    nowhere = view(pod("c", revision="new", container=None))
    pulls = view(pod("d", revision="new", state={"waiting": {"reason": "ContainerCreating"}}))
    said = verdict("Ready", state_of([gated, nowhere, pulls], desired=3))
    assert said.reason == "StartingPods"
    assert "1 pod is held by scheduling gates, 1 pod is without a node and 1 pod is pulling images" in said.message


@pytest.mark.parametrize(
    ("waits", "what"),
    [
        ({"container": None, "conditions": (condition("PodScheduled", False, GATED),)}, "held by scheduling gates"),
        ({"container": None}, "without a node"),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, "pulling images or starting containers"),
    ],
    ids=["gated", "no node", "pulling"],
)
def test_pod_without_a_running_container_is_not_warming_up(waits: dict[str, Any], what: str) -> None:
    said = verdict("WarmedUp", state_of([view(pod("b", revision="new", **waits))], desired=1))
    assert (said.status, said.reason) == (FALSE, "NoPodWarmingUp")
    assert said.message.endswith(f"have passed the readiness gate; 1 pod is {what}.")


def test_pod_below_its_thresholds_is_not_warming_up() -> None:
    few = report(prompt=PhaseProgressReport(planned=8, warmed=8, captured=5))
    said = verdict("WarmedUp", state_of([view(pod("a", revision="new"), few)], desired=1))
    assert (said.reason, "1 pod is warmed up but not ready" in said.message) == ("NoPodWarmingUp", True)


def test_paused_rollout_is_not_reconciling() -> None:
    paused = inference(rollout={"paused": True})
    held = state_of([serving("a", "old"), serving("b")], PAUSED, inference=paused)
    assert (verdict("Reconciling", held).status, verdict("Reconciling", held).reason) == (FALSE, "RolloutPaused")
    short = state_of([serving("a", "old"), warming("b")], PAUSED, inference=paused)
    assert verdict("Reconciling", short).status is TRUE
    assert "With older revisions, 1 of 2 replicas serve; 1 pod is warming up." in verdict("Ready", short).message


@pytest.mark.parametrize(("asked", "status"), [(100, FALSE), (60, TRUE)])
def test_plan_measured_below_its_thresholds_is_not_accepted(asked: int, status: ConditionStatus) -> None:
    few = report(prompt=PhaseProgressReport(planned=8, warmed=8, captured=5))
    pods = [view(pod("a", revision="new"), few)]
    found = verdict("PlanAccepted", state_of(pods, inference=inference(readiness={"minCapturedPromptPercent": asked})))
    assert (found.status, "requires 100 % of the prompt buckets, but 62 % were executed" in found.message) == (
        status,
        status is FALSE,
    )
