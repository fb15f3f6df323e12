"""Conditions in a table of situations. Reasons are stable, and messages are sentences."""

from dataclasses import replace

import pytest

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus
from gaudi_operator.core.gate.judgement import ADD_SIZES
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.condition_table import CONDITIONS, judge_condition_table
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict, build_conditions
from gaudi_runtime.contract.report import (
    PlanGapsReport,
    ServedTrafficReport,
    ServedVisionReport,
    WarmupReport,
)
from gaudi_runtime.errors import Problem
from tests.support.conformance import violations
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import CARD, NOW, inference
from tests.unit.operator.core.states import (
    DONE,
    PAUSED,
    closed,
    having_served,
    serving,
    state_of,
    warming,
)
from tests.unit.operator.core.stories import served, status


def verdict(kind: str, situation: State) -> Verdict:
    found = next(each for each in CONDITIONS if each.type == kind).judge(situation)
    assert found
    return found


SERVED = state_of([serving("a"), serving("b")], DONE)
REFUSED = state_of([serving("a")], violation=Problem("PlanImpossible", "No bucket is left."))
TROUBLED = state_of([serving("a")], problem=Problem("ImagePullBackOff", "Check the image."))
EMPTY = state_of([], DONE, desired=0)
AT_REST = Verdict(TRUE, "ScaledToZero", "No replica is desired, and no pod runs.")
BUCKETED = "Every admissible batch has a bucket"
GAPS = PlanGapsReport(prompt=1, message="50.0 % of the prompt shapes have no bucket")
COLD = Verdict(
    FALSE,
    "ColdShapes",
    "Requests had shapes without a warm graph. status.recompiles lists these shapes. Add buckets for these shapes to "
    "spec.bucketing.",
)


def serve(pods: int) -> str:
    return f"{pods} of 2 replicas serve revision new"


def ready_pods(count: str, minimum: int) -> str:
    return f"{count} ready (minimum {minimum})."


def passed(pods: int, others: str = "") -> str:
    return f"{pods} of 2 replicas of revision new have passed the readiness gate{others}."


def driven(release: str) -> WarmupReport:
    return report(releases=f"Driven by {release}.")


TABLE: list[tuple[str, State, Verdict]] = [
    ("Ready", SERVED, Verdict(TRUE, "Serving", "All 2 replicas serve revision new.")),
    (
        "Ready",
        state_of([serving("a"), view(pod("b", terminating=True)), view(pod("evicted", phase="Failed"))], DONE, 1),
        Verdict(
            TRUE,
            "Serving",
            "1 replica serves revision new. 1 pod is terminating.",
        ),
    ),
    ("Ready", EMPTY, AT_REST),
    (
        "Ready",
        state_of([view(pod(terminating=True)), view(pod("evicted", phase="Failed"))], DONE, desired=0),
        Verdict(FALSE, "ScalingDown", "No replica is desired. 1 pod is terminating."),
    ),
    (
        "Ready",
        state_of([view(pod(terminating=True))], DONE, desired=0, inference=inference(accelerator=CARD)),
        Verdict(FALSE, "ScalingDown", "No replica is desired. 1 pod is terminating and holds its cards."),
    ),
    (
        "Ready",
        state_of([view(pod(phase="Failed"))], DONE, desired=0),
        AT_REST,
    ),
    ("Ready", REFUSED, Verdict(FALSE, "PlanImpossible", "No bucket is left.")),
    ("Ready", TROUBLED, Verdict(FALSE, "ImagePullBackOff", "Check the image.")),
    (
        "Ready",
        state_of([serving("a"), warming()]),
        Verdict(
            FALSE,
            "WarmingUp",
            f"{serve(1)}; 1 pod is warming up (details in status.pods).",
        ),
    ),
    (
        "Ready",
        state_of([serving("a")]),
        Verdict(FALSE, "StartingPods", f"{serve(1)}; 1 pod is not created yet."),
    ),
    (
        "Ready",
        state_of([serving("a"), warming()], desired=3),
        Verdict(
            FALSE,
            "WarmingUp",
            "1 of 3 replicas serve revision new; 1 pod is not created yet; "
            "1 pod is warming up (details in status.pods).",
        ),
    ),
    (
        "Ready",
        state_of([serving("a", "old"), serving("b", "old"), warming("c")]),
        Verdict(
            FALSE,
            "RollingOut",
            f"{serve(0)}; pods of older revisions are deleted as new pods become ready. 2 old pods are left.",
        ),
    ),
    (
        "Ready",
        state_of([serving("a", "old"), serving("b")], PAUSED),
        Verdict(
            FALSE,
            "RolloutPaused",
            f"{serve(1)}. The rollout is paused (spec.rollout.paused: true).",
        ),
    ),
    (
        "Ready",
        state_of([serving("a"), serving("b"), serving("c")]),
        Verdict(FALSE, "ScalingDown", "3 pods run, but only 2 are desired."),
    ),
    ("Reconciling", SERVED, Verdict(FALSE, "Reconciled", "The spec is fully reconciled.")),
    (
        "Reconciling",
        REFUSED,
        Verdict(FALSE, "Stalled", "The operator waits for a change. The condition Stalled has the reason."),
    ),
    (
        "Reconciling",
        state_of([serving("a")]),
        Verdict(TRUE, "StartingPods", f"{serve(1)}; 1 pod is not created yet."),
    ),
    ("Stalled", SERVED, Verdict(FALSE, "NotStalled", "No action is required.")),
    ("Stalled", REFUSED, Verdict(TRUE, "PlanImpossible", "No bucket is left.")),
    ("Stalled", TROUBLED, Verdict(TRUE, "ImagePullBackOff", "Check the image.")),
    ("Available", SERVED, Verdict(TRUE, "MinimumAvailable", ready_pods("2 pods are", 2))),
    (
        "Available",
        state_of([serving("a", "old"), serving("b", "old")]),
        Verdict(TRUE, "MinimumAvailable", ready_pods("2 pods are", 2)),
    ),
    (
        "Available",
        state_of([serving("a")]),
        Verdict(FALSE, "BelowMinimum", ready_pods("1 pod is", 2)),
    ),
    (
        "Available",
        state_of([serving("a")], unavailable=1),
        Verdict(TRUE, "MinimumAvailable", ready_pods("1 pod is", 1)),
    ),
    (
        "Available",
        state_of([warming()], desired=1, unavailable=1),
        Verdict(FALSE, "BelowMinimum", ready_pods("0 pods are", 1)),
    ),
    (
        "Available",
        EMPTY,
        Verdict(FALSE, "ScaledToZero", "No replica is desired, so no pod receives traffic."),
    ),
    (
        "WarmedUp",
        SERVED,
        Verdict(TRUE, "WarmedUp", passed(2)),
    ),
    (
        "WarmedUp",
        state_of([serving("a"), serving("b"), serving("c")]),
        Verdict(TRUE, "WarmedUp", "3 pods (2 desired) of revision new have passed the readiness gate."),
    ),
    (
        "WarmedUp",
        state_of([serving("a", "old"), serving("b")]),
        Verdict(FALSE, "NoPodWarmingUp", passed(1, "; 1 pod is not created yet")),
    ),
    (
        "WarmedUp",
        state_of([serving("a", said=driven("0.30.0")), serving("b", said=driven("0.26.0"))]),
        Verdict(TRUE, "WarmedUp", f"{passed(2)} Driven by 0.26.0. Driven by 0.30.0."),
    ),
    (
        "WarmedUp",
        state_of([warming("a"), serving("b", said=driven("0.30.0"))]),
        Verdict(FALSE, "WarmingUp", f"{passed(1, '; 1 pod is warming up')} Driven by 0.30.0."),
    ),
    (
        "WarmedUp",
        state_of([], current=None, violation=Problem("PlanImpossible", "No bucket is left.")),
        Verdict(
            FALSE,
            "NoPodWarmingUp",
            "0 of 2 replicas have passed the readiness gate; no pod is created before the spec is accepted (condition "
            "PlanAccepted).",
        ),
    ),
    (
        "WarmedUp",
        EMPTY,
        Verdict(UNKNOWN, "ScaledToZero", "No replica is desired, so there is nothing to warm up."),
    ),
    (
        "PlanAccepted",
        SERVED,
        Verdict(
            TRUE,
            "Accepted",
            "The first pod reports the figures of the plan. To estimate them before, run `gaudi-plan forecast "
            "--from-cluster tiny`.",
        ),
    ),
    ("PlanAccepted", REFUSED, Verdict(FALSE, "PlanImpossible", "No bucket is left.")),
    (
        "Degraded",
        SERVED,
        Verdict(FALSE, "AsExpected", "No replica is lost, and no pod serves below the thresholds."),
    ),
    (
        "Degraded",
        having_served(2, [serving("a"), closed("c")]),
        Verdict(TRUE, "ReplicasLost", "1 replica was lost: 1 replica is ready, but 2 were ready before. Not ready: c."),
    ),
    (
        "Degraded",
        having_served(2, [warming("a"), warming("b")]),
        Verdict(TRUE, "ReplicasLost", "2 replicas were lost: 0 replicas are ready, but 2 were ready before."),
    ),
    (
        "Degraded",
        having_served(2, [serving("a"), serving("b"), warming("c")], desired=3),
        Verdict(FALSE, "AsExpected", "No replica is lost, and no pod serves below the thresholds."),
    ),
    (
        "Degraded",
        having_served(2, [serving("a")], desired=1),
        Verdict(FALSE, "AsExpected", "No replica is lost, and no pod serves below the thresholds."),
    ),
    (
        "Degraded",
        state_of([serving("a", gate="OpenedBelowThreshold"), serving("b")]),
        Verdict(
            TRUE,
            "BelowThresholds",
            "1 pod serves with fewer graphs than spec.readiness requires: a.",
        ),
    ),
    (
        "BucketCoverage",
        SERVED,
        Verdict(UNKNOWN, "NoReports", "No serving pod has reported yet."),
    ),
    (
        "BucketCoverage",
        state_of([serving(said=report(gaps=GAPS))]),
        Verdict(
            FALSE,
            "BucketsMissing",
            f"{GAPS.message}. Such a batch waits for a compile. Change spec.bucketing or the limits in spec.engine.",
        ),
    ),
    (
        "BucketCoverage",
        state_of([serving(said=report(recompiles_since_ready=1, gaps=GAPS))]),
        COLD,
    ),
    (
        "BucketCoverage",
        state_of([serving(said=report())]),
        Verdict(TRUE, "Covered", f"{BUCKETED}, and no request so far waited for a compile."),
    ),
    (
        "BucketCoverage",
        state_of([serving(said=report(recompiles_since_ready=1))]),
        COLD,
    ),
]


@pytest.mark.parametrize(("kind", "found", "expected"), TABLE, ids=[f"{row[0]}-{row[2].reason}" for row in TABLE])
def test_condition_has_the_status_reason_and_message_of_the_table(kind: str, found: State, expected: Verdict) -> None:
    assert verdict(kind, found) == expected


@pytest.mark.parametrize("found", [row[1] for row in TABLE])
def test_conditions_of_every_table_row_follow_the_api_conventions(found: State) -> None:
    conditions = [each.model_dump(mode="json", by_alias=True) for each in judge_condition_table(found)]
    assert violations({"metadata": {"generation": 1}, "status": {"observedGeneration": 0, "conditions": []}}) != []
    generation = found.inference.identity.generation
    status = {"observedGeneration": generation, "conditions": conditions}
    assert violations({"metadata": {"generation": generation}, "status": status}) == []


def test_cold_shapes_are_accepted_if_recompiles_are_ignored() -> None:
    lenient = inference(readiness={"onRecompiles": "Ignore"})
    found = state_of([serving(said=report(recompiles_since_ready=1))], inference=lenient)
    assert verdict("BucketCoverage", found) == Verdict(
        TRUE, "Covered", f"{BUCKETED}. Some requests waited for a compile, but spec.readiness.onRecompiles is Ignore."
    )


def test_cold_image_sizes_cause_the_advice_to_add_sizes() -> None:
    seen = report(
        recompiles_since_ready=1, served=ServedTrafficReport(vision=ServedVisionReport(misses=1, recompiles=1))
    )
    assert verdict("BucketCoverage", state_of([serving(said=seen)])).message.endswith(ADD_SIZES)


def old_condition(status: ConditionStatus) -> Condition:
    return Condition(
        type="Ready",
        status=status,
        reason="Before",
        message="Before.",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=1,
    )


def ready(before: ConditionStatus) -> Condition:
    (found,) = build_conditions([("Ready", Verdict(TRUE, "Now", "Now."))], [old_condition(before)], 2, NOW)
    return found


def test_transition_time_is_kept_while_the_status_is_unchanged() -> None:
    assert ready(TRUE).last_transition_time == "2026-01-01T00:00:00Z"


def test_transition_time_changes_with_the_status() -> None:
    assert ready(FALSE).last_transition_time == "2026-08-01T12:00:00Z"


def test_condition_has_the_evaluated_generation() -> None:
    assert ready(TRUE).observed_generation == 2


def test_long_message_is_truncated() -> None:
    long = state_of(violation=Problem("PlanImpossible", "x" * 10_000))
    assert len(judge_condition_table(long)[0].message) == 2048


def test_condition_types_are_unique() -> None:
    types = [kind.type for kind in CONDITIONS]
    assert len(set(types)) == len(types)


def test_first_revision_with_a_problem_is_not_available() -> None:
    nothing = replace(TROUBLED, pods=(warming("a"),))
    assert verdict("Available", nothing).status is FALSE


def test_resource_without_a_class_has_no_class_applied_condition() -> None:
    assert "ClassApplied" not in {each["type"] for each in status(served())["conditions"]}
