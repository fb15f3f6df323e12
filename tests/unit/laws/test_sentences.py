"""The checks find no contradiction in a consistent status, and find each kind of contradiction."""

from typing import Any

import pytest

from tests.laws import showing
from tests.laws.sentences import disagreements
from tests.unit.laws.records import NEW, OLD, history, moment

READY = "1 of 2 replicas serve revision new; 1 pod is held by scheduling gates (details in status.pods)."
ROWS = [
    {"name": "a", "revision": NEW, "phase": "Serving", "gate": True, "ready": True},
    {"name": "b", "revision": NEW, "phase": "SchedulingGated", "gate": False, "ready": False},
]
SAYS = {
    "Ready": ("False", "StartingPods", READY),
    "Reconciling": ("True", "StartingPods", READY),
    "Stalled": ("False", "NotStalled", "No action is required."),
    "Available": ("False", "BelowMinimum", "1 pod is ready (minimum 2)."),
    "WarmedUp": (
        "False",
        "NoPodWarmingUp",
        "1 of 2 replicas of revision new have passed the readiness gate; 1 pod is held by scheduling gates.",
    ),
    "Degraded": ("False", "AsExpected", "No replica is lost, and no pod serves below the thresholds."),
}
"""The conditions of a model of two replicas, one of which serves and one of which is gated."""


def status(**says: tuple[str, str, str]) -> dict[str, Any]:
    """Return the status of the two pods; `says` replaces conditions."""
    conditions = [
        {"type": kind, "status": state, "reason": reason, "message": message}
        for kind, (state, reason, message) in {**SAYS, **says}.items()
    ]
    return {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 1,
        "expectedReadyReplicas": 1,
        "revision": {"current": NEW, "stable": NEW},
        "conditions": conditions,
        "pods": ROWS,
    }


def unready(message: str, reason: str = "StartingPods", **says: tuple[str, str, str]) -> dict[str, Any]:
    """Return the status with that message in Ready and Reconciling."""
    return status(Ready=("False", reason, message), Reconciling=("True", reason, message), **says)


def of(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a resource of two replicas with that status."""
    return {"metadata": {"generation": 1}, "spec": {"replicas": 2}, "status": shown}


def test_consistent_status_has_no_disagreements() -> None:
    assert list(disagreements(of(status()))) == []


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (unready(READY.replace("1 of 2", "2 of 2")), "Ready says 2, and the fields say 1"),
        (unready(READY.replace("; 1 pod is", "; 2 pods are")), "Ready counts 2 pods that do not serve"),
        (unready(READY.replace("held by scheduling gates", "warmed up but not ready")), "the rows show 0"),
        (unready(READY.replace("1 of 2 replicas", "3 pods (2 desired)")), "Ready says 3, and the fields say 1"),
        (unready(READY.replace("1 of 2 replicas", "1 pods (0 desired)")), "Ready says 0, and the fields say 2"),
        (
            status(WarmedUp=("True", "WarmedUp", "3 pods (2 desired) have passed the readiness gate.")),
            "WarmedUp says 3, and the fields say 1",
        ),
        (unready(READY, "WarmingUp"), "no pod warms up"),
        (unready(READY, "RollingOut"), "no pod of an older revision is there"),
        ({**status(), "revision": {"current": "newer"}}, "2 pods of older revisions are there"),
        (status(Available=("True", "MinimumAvailable", "2 pods are ready (minimum 2).")), "Available says 2"),
        (status(Stalled=("True", "ModelNotFound", "There is no model.")), "Stalled says ModelNotFound"),
        (status(Degraded=("True", "ReplicasLost", "1 replica was lost. Not ready: a.")), "that a does not serve"),
        (status(Reconciling=("True", "WarmingUp", "1 pod is warming up.")), "Reconciling says WarmingUp"),
        (
            unready("Pod a is unschedulable: no card is free.", "Unschedulable"),
            "a message says that a does not serve",
        ),
        (
            unready(
                "0 of 2 replicas serve revision new; pods of older revisions serve until then, 0 left.", "RollingOut"
            ),
            "Ready says that older pods serve, and none does",
        ),
        (
            unready(READY, "WarmingUp", WarmedUp=("True", "WarmedUp", "All have passed the gate.")),
            "Ready says that pods warm up, and WarmedUp that all have",
        ),
        (
            unready(READY, WarmedUp=("False", "WarmingUp", "1 of 2 replicas have passed the readiness gate.")),
            "Ready says StartingPods, and WarmedUp says WarmingUp",
        ),
        (
            status(WarmedUp=("False", "NoPodWarmingUp", "1 of 2 replicas; 1 pod is not created yet.")),
            "WarmedUp says 1, and the fields say 0",
        ),
        (
            {**status(), "expectedReadyReplicas": 2},
            "1 of 2 expected pods serve, and Degraded denies a loss",
        ),
    ],
)
def test_each_kind_of_disagreement_is_found(wrong: dict[str, Any], found: str) -> None:
    assert any(found in each for each in disagreements(of(wrong))), list(disagreements(of(wrong)))


def test_status_that_contradicts_itself_breaks_a_law() -> None:
    bad = history(moment(0, status=status()), moment(5, status=unready(READY, "RollingOut")))
    assert f"5 s: Ready says RollingOut, and no pod of an older revision is there: {READY}" in list(
        showing.no_message_contradicts_the_status(bad)
    )


def test_stalled_with_reason_scheduling_gated_breaks_a_law() -> None:
    held = {"type": "Stalled", "status": "True", "reason": "SchedulingGated", "message": "Pod b is held."}
    bad = history(moment(0), moment(5, status={"conditions": [held], "revision": {"current": OLD}}))
    assert list(showing.queued_pods_are_not_stalled(bad)) == [
        "5 s: Stalled has the reason SchedulingGated: Pod b is held."
    ]
