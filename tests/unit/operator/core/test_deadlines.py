"""When the clock alone can change a judgement, a pass is due then; and no sooner."""

from datetime import timedelta

import pytest

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import is_settling
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.criteria import Room
from gaudi_operator.core.rollout.replicas import ending_pods
from gaudi_operator.core.rollout.target import is_on_trial
from gaudi_runtime.contract.report import Phase
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, resource
from tests.unit.operator.core.states import first_problem_of, serving, state_of

READY = condition("Ready", True)


def ago(seconds: float) -> str:
    return stamp(NOW - timedelta(seconds=seconds))


def unschedulable(seconds: int, terminating: bool = False) -> PodView:
    scheduled = condition("PodScheduled", False, "Unschedulable", "", ago(seconds))
    return view(pod(container=None, conditions=(scheduled,), terminating=terminating))


def after_problems(*pods: PodView, workloads: tuple[Manifest, ...] = (), to_come: bool = False) -> Deadlines:
    """What is noted when the pods of a revision, and what makes them, are looked at."""
    state = state_of(pods)
    first_problem_of(pods, workloads, state, Room(to_come))
    return state.deadlines


def test_deadline_is_reached_when_time_is_over_and_noted_before() -> None:
    deadlines = Deadlines(NOW)
    assert deadlines.reached(NOW - timedelta(seconds=30), 30)
    assert deadlines.requeue_after is None
    assert not deadlines.reached(NOW - timedelta(seconds=12), 30)
    assert deadlines.requeue_after == pytest.approx(18.1)


def test_first_of_all_deadlines_counts() -> None:
    deadlines = Deadlines(NOW)
    deadlines.requeue(6)
    deadlines.requeue(1.5)
    deadlines.requeue(9)
    assert deadlines.requeue_after == pytest.approx(1.6)


def test_pod_without_node_is_looked_at_when_one_is_due() -> None:
    assert after_problems(unschedulable(12)).requeue_after == pytest.approx(18.1)


def test_pod_that_waits_for_room_asks_for_no_look() -> None:
    assert after_problems(unschedulable(12), to_come=True).requeue_after is None


def test_workload_refused_its_pods_is_looked_at_when_it_counts() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(12)}
    workloads = ({"status": {"conditions": [refused]}}, {"metadata": {}})
    assert after_problems(workloads=workloads).requeue_after == pytest.approx(18.1)


def test_opened_gate_is_looked_at_when_the_kubelet_should_follow() -> None:
    deadlines = Deadlines(NOW)
    assert is_settling(view(pod(conditions=(gate_condition(True, since=ago(4)),))), deadlines)
    assert deadlines.requeue_after == pytest.approx(6.1)


def test_canary_is_looked_at_when_it_has_been_observed() -> None:
    held = view(pod(revision="new", conditions=(gate_condition(True, since=ago(20)), READY)))
    deadlines = Deadlines(NOW)
    assert is_on_trial("new", "old", [held, serving("o", "old")], 60, deadlines)
    assert deadlines.requeue_after == pytest.approx(40.1)


@pytest.mark.parametrize(
    ("still", "seconds"), [(100, 1699.1), (1798.5, 0.6), (1799, 10.1), (1799.5, 10.1), (1801, None)]
)
def test_warmup_that_may_stand_still_is_looked_at(still: float, seconds: float | None) -> None:
    found = after_problems(view(report=report(Phase.COMPILING, since_progress_seconds=still)))
    assert found.requeue_after == (None if seconds is None else pytest.approx(seconds))


def test_pod_that_ends_is_looked_at_when_it_is_overdue() -> None:
    ending = pod(terminating=True)
    ending["metadata"]["deletionTimestamp"] = stamp(NOW + timedelta(seconds=30))
    deadlines = Deadlines(NOW)
    assert ending_pods([view(ending)], Observed(resource()), deadlines) == 1
    assert deadlines.requeue_after == pytest.approx(40.1)


@pytest.mark.parametrize("seen", [unschedulable(31), view()])
def test_judgement_that_time_does_not_change_asks_for_nothing(seen: PodView) -> None:
    assert after_problems(seen).requeue_after is None


@pytest.mark.parametrize(("past", "count"), [(5, 1), (10, 0)])
def test_pod_past_its_grace_holds_its_cards_a_moment_longer(past: int, count: int) -> None:
    ending = pod(terminating=True)
    ending["metadata"]["deletionTimestamp"] = ago(past)
    assert ending_pods([view(ending)], Observed(resource()), Deadlines(NOW)) == count
