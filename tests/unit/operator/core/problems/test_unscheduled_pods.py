"""Unscheduled pods: when they are a problem, and the advice for each reason that the scheduler gives."""

from datetime import timedelta

import pytest

from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import gated, view
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import first_problem_of, problem_of, state_of, unschedulable

ROOM = RoomCriterion(to_come=False)


NO_NODE = "Pod a is unschedulable: 0/1 nodes are available."


def held(seconds: int) -> PodView:
    return view(gated("kueue.x-k8s.io/admission", since=stamp(NOW - timedelta(seconds=seconds))))


HELD = "Pod a is held by the scheduling gate kueue.x-k8s.io/admission and has no node yet."


def test_pod_unscheduled_for_long_is_a_problem() -> None:
    assert problem_of(unschedulable(31), state_of(), ROOM) == Problem(
        "Unschedulable",
        f"{NO_NODE} Free or add cards and memory, or lower spec.replicas.",
        since=NOW - timedelta(seconds=31),
    )


def test_missing_scheduler_message_is_replaced_by_a_default() -> None:
    found = problem_of(unschedulable(31, ""), state_of(), ROOM)
    assert found is not None
    assert found.message.startswith("Pod a is unschedulable: no node fits. ")


def test_unscheduled_pod_of_an_upgrade_is_a_problem() -> None:
    assert problem_of(unschedulable(31), state_of(), RoomCriterion(to_come=False, remedy="Free cards.")) == Problem(
        "UpgradeBlocked", f"{NO_NODE} Free cards.", since=NOW - timedelta(seconds=31)
    )


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (
            ROOM,
            Problem(
                "SchedulingGated",
                f"{HELD} The pod starts after the quota system that set the gate, such as Kueue, admits the pod. "
                "`kubectl describe pod a` shows the events of the pod.",
                since=NOW,
            ),
        ),
        (
            RoomCriterion(to_come=False, in_place_after=300),
            Problem(
                "SchedulingGated",
                f"{HELD} If the gate stays for 300 s (spec.rollout.surgeTimeoutSeconds), pods are replaced in place. "
                "To wait for room instead, set spec.rollout.type to Surge.",
                since=NOW,
            ),
        ),
        (
            RoomCriterion(to_come=False, remedy="Free cards."),
            Problem("UpgradeBlocked", f"{HELD} Free cards.", since=NOW - timedelta(seconds=31)),
        ),
        (RoomCriterion(to_come=True), None),
    ],
    ids=["first start", "upgrade", "blocked upgrade", "room to come"],
)
def test_pod_with_a_scheduling_gate_is_queued(room: RoomCriterion, expected: Problem | None) -> None:
    assert problem_of(held(31), state_of(), room) == expected


def test_unscheduled_pod_ranks_above_a_queued_one() -> None:
    found = first_problem_of([held(700), unschedulable(31)], [], state_of(), ROOM)
    assert found
    assert found.reason == "Unschedulable"


def test_short_scheduling_gate_is_not_a_problem() -> None:
    assert problem_of(held(29), state_of(), ROOM) is None


def test_briefly_unscheduled_pod_has_no_problem() -> None:
    assert problem_of(unschedulable(29), state_of(), ROOM) is None


def test_pod_waiting_for_a_terminating_pod_has_no_problem() -> None:
    assert problem_of(unschedulable(300), state_of(), RoomCriterion(to_come=True)) is None


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("0/3 nodes are available: 3 Insufficient habana.ai/gaudi.", "Free or add cards and memory, or lower"),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            "Change spec.pod.nodeSelector",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.",
            "Tolerate the taint in spec.pod.tolerations",
        ),
    ],
)
def test_advice_follows_the_reason_of_the_scheduler(said: str, advice: str) -> None:
    found = problem_of(unschedulable(31, said), state_of(), ROOM)
    assert found is not None
    assert found.message.removeprefix(f"Pod a is unschedulable: {said} ").startswith(advice)
