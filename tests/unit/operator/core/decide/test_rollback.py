"""Scenarios of decide() for a failing revision: the rollout ends, and the last good revision keeps serving."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.core.decide import decide
from gaudi_operator.core.names import FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_runtime.contract.failures import CRASH_REASONS, EXTERNAL_REASONS
from gaudi_runtime.contract.report import NO_PLAN, Phase, PhaseProgressReport, RuntimeFailureReport
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.stories import (
    BIGGER,
    STALL,
    canary_of,
    condition,
    failing_upgrade,
    failure_of,
    pod_names,
    revisions,
    served,
    status,
)

REFUSED = RuntimeFailureReport(reason="ConfigInvalid", message="warmup.fromTheFuture: Extra inputs are not permitted.")


def message(cluster: Cluster, kind: str = "Stalled") -> str:
    (found,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == kind]
    return str(found)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (STALL, "WarmupStalled"),
        ({"phase": Phase.SERVING, "prompt": PhaseProgressReport(planned=8, warmed=8, captured=4)}, "WarmupIncomplete"),
        ({"phase": Phase.FAILED, "plan_hash": NO_PLAN, "failure": REFUSED}, "ConfigInvalid"),
        (
            {"phase": Phase.FAILED, "failure": RuntimeFailureReport(reason="ModelNotFound", message="No.")},
            "ModelNotFound",
        ),
    ],
)
def test_failed_revision_is_rolled_back(how: dict[str, Any], reason: str) -> None:
    cluster, good, bad = failing_upgrade(how)
    cluster.settle()
    assert revisions(cluster) == {good}
    found = failure_of(cluster, bad)
    assert found is not None
    assert found["reason"] == reason
    assert condition(cluster, "Stalled") == ("True", "RolledBack")


def restart_after(cluster: Cluster, reason: str, times: int) -> None:
    """Let the container of the newest revision's pod fail for `reason` and restart, several times."""
    (pod,) = [each for each in cluster.kind("Pod") if not each["status"]["containerStatuses"][0]["ready"]]
    name, (container,) = pod["metadata"]["name"], pod["status"]["containerStatuses"]
    for number in range(1, times + 1):
        cluster.report(name, Phase.FAILED, failure=RuntimeFailureReport(reason=reason, message="Not now."))
        cluster.operate()
        cluster.now += timedelta(minutes=5)
        cluster.restart(name)
        exited = {"reason": "Error", "exitCode": 1, "message": f"{reason}: Not now.", "finishedAt": stamp(cluster.now)}
        container |= {"restartCount": number, "lastState": {"terminated": exited}}
        cluster.operate()


@pytest.mark.parametrize("reason", sorted(EXTERNAL_REASONS))
def test_failure_common_to_all_revisions_causes_no_rollback(reason: str) -> None:
    failed = RuntimeFailureReport(reason=reason, message="Not now.")
    cluster, _, bad = failing_upgrade({"phase": Phase.FAILED, "failure": failed})
    assert condition(cluster, "Reconciling") == ("True", reason)
    restart_after(cluster, reason, 5)
    assert failure_of(cluster, bad) is None
    assert condition(cluster, "Stalled") == ("True", reason)
    cluster.settle()
    assert revisions(cluster) == {bad}


@pytest.mark.parametrize("reason", sorted(CRASH_REASONS))
def test_revision_is_rolled_back_after_two_crashes_but_not_one(reason: str) -> None:
    failed = RuntimeFailureReport(reason=reason, message="Not now.")
    cluster, good, bad = failing_upgrade({"phase": Phase.FAILED, "failure": failed})
    restart_after(cluster, reason, 1)
    assert failure_of(cluster, bad) is None
    restart_after(cluster, reason, 2)
    found = failure_of(cluster, bad)
    assert found is not None
    assert found["reason"] == "CrashLoopBackOff"
    assert f"{reason}: Not now." in found["message"]
    cluster.settle()
    assert revisions(cluster) == {good}


def test_last_good_revision_keeps_serving_during_a_rollback() -> None:
    cluster, _, _ = failing_upgrade()
    for _ in range(10):
        cluster.operate()
        cluster.controllers()
        cluster.kubelet()
        assert status(cluster)["readyReplicas"] == 2


def test_condition_has_both_revisions_the_evidence_and_next_steps() -> None:
    cluster, good, bad = failing_upgrade()
    cluster.settle()
    found = failure_of(cluster, bad)
    assert found is not None
    assert "(1, 128, 0)" in found["message"]
    assert message(cluster) == (
        f"Revision {bad} failed (WarmupStalled): {found['message']} Revision {good} runs instead. Pods of the failed "
        "revision are deleted; spec.rollout.onFailure Pause keeps them for inspection. Change the spec. If the cause "
        "was outside the spec and is fixed, set the annotation inference.gaudi.dev/restarted-at to a new value to "
        "retry."
    )


def test_failure_event_precedes_the_rollback_event() -> None:
    cluster, good, bad = failing_upgrade()
    cluster.settle()
    reasons = [event.reason for event in cluster.events if event.reason in ("RevisionFailed", "RollingBack", "Stalled")]
    assert reasons == ["RevisionFailed", "RollingBack", "Stalled"]
    failed, back = (next(e.message for e in cluster.events if e.reason == r) for r in ("RevisionFailed", "RollingBack"))
    assert failed.startswith(f"Revision {bad} failed (WarmupStalled): ")
    assert back == f"The operator rolls back to revision {good}."


def test_history_has_the_phase_of_each_revision() -> None:
    cluster, good, bad = failing_upgrade()
    cluster.settle()
    rows = {row["name"]: (row["number"], row["phase"], row.get("reason")) for row in status(cluster)["revisions"]}
    assert rows == {good: (3, "Serving", None), bad: (2, "RolledBack", "WarmupStalled")}


def test_history_marks_only_the_revision_that_served() -> None:
    cluster, good, bad = failing_upgrade()
    cluster.settle()
    assert {row["name"]: row["served"] for row in status(cluster)["revisions"]} == {good: True, bad: False}


def test_failed_revision_is_not_retried() -> None:
    cluster, good, _ = failing_upgrade()
    cluster.settle()
    for change in ({"replicas": 3}, {"readiness": {"minCapturedPromptPercent": 50}}, {"service": {"port": 81}}):
        cluster.change(**change)
        cluster.settle()
        assert revisions(cluster) == {good}


def test_restarted_operator_does_not_retry_a_failed_revision() -> None:
    cluster, good, _ = failing_upgrade()
    cluster.settle()
    del cluster.resource["status"]
    cluster.reports.clear()
    cluster.settle()
    assert revisions(cluster) == {good}


def test_changed_spec_is_rolled_out() -> None:
    cluster, good, bad = failing_upgrade()
    cluster.settle()
    cluster.change(model={"maxModelLen": 768})
    cluster.settle()
    assert not revisions(cluster) & {good, bad}
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_restart_retries_the_revision() -> None:
    cluster, good, bad = failing_upgrade()
    cluster.settle()
    cluster.resource["metadata"]["annotations"] = {RESTARTED_AT_ANNOTATION: "2026-08-01T12:00:00Z"}
    cluster.settle()
    assert not revisions(cluster) & {good, bad}


def test_removed_failure_annotation_retries_the_revision() -> None:
    cluster, _, bad = failing_upgrade()
    cluster.settle()
    del cluster.objects["ControllerRevision", f"tiny-{bad}"]["metadata"]["annotations"][FAILURE_ANNOTATION]
    cluster.settle()
    assert revisions(cluster) == {bad}
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_reverted_spec_is_ready_immediately() -> None:
    cluster, good, _ = failing_upgrade()
    cluster.settle()
    before = pod_names(cluster)
    cluster.change(model={"maxModelLen": 256})
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert pod_names(cluster) == before
    assert revisions(cluster) == {good}


def test_failure_with_pause_policy_pauses_the_rollout() -> None:
    cluster, good, bad = failing_upgrade(onFailure="Pause")
    before = pod_names(cluster)
    cluster.settle()
    assert pod_names(cluster) == before
    assert revisions(cluster) == {good, bad}
    assert condition(cluster, "Stalled") == ("True", "RevisionFailed")
    assert (
        "The rollout is paused because spec.rollout.onFailure is Pause. Its pods are kept for inspection: `kubectl "
        "logs POD`." in message(cluster)
    )


def test_scale_up_on_hold_starts_the_good_revision() -> None:
    cluster = served(replicas=1, rollout={"onFailure": "Pause", "type": "InPlace"})
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    name = canary_of(cluster, good)
    cluster.broken = revisions(cluster)
    cluster.report(name, **STALL)
    cluster.operate()
    cluster.change(replicas=3)
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    assert name in pod_names(cluster)
    assert [each.startswith(f"tiny-{good}") for each in pod_names(cluster)].count(True) == 2
    assert condition(cluster, "Stalled") == ("True", "RevisionFailed")


def test_paused_failure_is_rolled_back_after_a_policy_change() -> None:
    cluster, good, _ = failing_upgrade(onFailure="Pause")
    cluster.change(rollout={"onFailure": "Rollback"})
    cluster.settle()
    assert revisions(cluster) == {good}


def test_paused_rollout_marks_no_revision_as_failed() -> None:
    cluster = served()
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    name = canary_of(cluster, good)
    cluster.change(rollout={"paused": True})
    cluster.report(name, **STALL)
    cluster.operate()
    assert not [event for event in cluster.events if event.reason == "RevisionFailed"]


def test_in_place_rollout_without_old_pods_is_rolled_back() -> None:
    cluster = served(replicas=1, rollout={"type": "InPlace"})
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    name = canary_of(cluster, good)
    assert pod_names(cluster) == [name]
    cluster.report(name, **STALL)
    cluster.settle()
    assert revisions(cluster) == {good}
    assert condition(cluster, "Stalled") == ("True", "RolledBack")


def test_first_revision_has_no_rollback() -> None:
    cluster = served(replicas=1)
    cluster.resource["status"] = {}
    (name,) = pod_names(cluster)
    cluster.report(name, **STALL)
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "WarmupStalled")


def test_stable_revision_is_not_replaced_by_newer_serving_ones() -> None:
    cluster = served()
    (stable,) = revisions(cluster)
    [kept, *_] = pod_names(cluster)
    cluster.change(model=BIGGER)
    newer = canary_of(cluster, stable)
    cluster.warm(newer)
    cluster.operate()
    cluster.kubelet()
    cluster.change(model={"maxModelLen": 256})
    cluster.restart(kept)
    cluster.report(kept, **STALL)
    cluster.operate()
    assert {row["name"]: row["phase"] for row in status(cluster)["pods"]}[newer] == "Serving"
    assert failure_of(cluster, stable) is None
    assert condition(cluster, "Stalled") == ("True", "WarmupStalled")


def test_incomplete_reconcile_is_finished_by_the_next_operator() -> None:
    for done in (1, 2, 3, 4):
        cluster = served()
        (good,) = revisions(cluster)
        cluster.change(model=BIGGER)
        cluster.report(canary_of(cluster, good), **STALL)
        plan = decide(cluster.observed(), cluster.defaults)
        assert len(plan.actions) >= 3
        for action in plan.actions[:done]:
            cluster.perform(action)
        cluster.settle()
        assert revisions(cluster) == {good}


def test_broken_revision_never_replaces_serving_pods() -> None:
    cluster = served()
    old = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.broken = {status(cluster)["revision"]["current"]}
    for _ in range(10):
        cluster.operate()
        cluster.controllers()
        cluster.kubelet()
    assert status(cluster)["readyReplicas"] == 2
    assert status(cluster)["revision"]["stable"] in old
