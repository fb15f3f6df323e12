"""A reconcile is scheduled for the earliest time at which the clock alone can change a decision."""

from datetime import timedelta

import pytest

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import is_gate_condition_settling
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.rollout.revision_choice import is_chosen_revision_on_trial
from gaudi_operator.core.rollout.workload_replicas import count_ending_workload_pods
from gaudi_runtime.contract.report import Phase
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.problems.test_resolution import DEADLINE, kstatus_after, starting
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
    """Return the deadlines that result from evaluating the problems of a revision's pods and workloads."""
    state = state_of(pods)
    first_problem_of(pods, workloads, state, RoomCriterion(to_come))
    return state.deadlines


def test_pending_deadline_sets_the_requeue_time() -> None:
    deadlines = Deadlines(NOW)
    assert deadlines.has_passed(NOW - timedelta(seconds=30), 30)
    assert deadlines.requeue_after is None
    assert not deadlines.has_passed(NOW - timedelta(seconds=12), 30)
    assert deadlines.requeue_after == pytest.approx(18.1)


def test_earliest_deadline_is_used() -> None:
    deadlines = Deadlines(NOW)
    deadlines.schedule_requeue(6)
    deadlines.schedule_requeue(1.5)
    deadlines.schedule_requeue(9)
    assert deadlines.requeue_after == pytest.approx(1.6)


def test_unscheduled_pod_requeues_at_its_deadline() -> None:
    assert after_problems(unschedulable(12)).requeue_after == pytest.approx(18.1)


def test_pod_waiting_for_room_does_not_requeue() -> None:
    assert after_problems(unschedulable(12), to_come=True).requeue_after is None


def test_workload_with_refused_pods_requeues_at_its_deadline() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(12)}
    workloads = ({"status": {"conditions": [refused]}}, {"metadata": {}})
    assert after_problems(workloads=workloads).requeue_after == pytest.approx(18.1)


def test_opened_gate_requeues_after_the_kubelets_reaction_time() -> None:
    deadlines = Deadlines(NOW)
    assert is_gate_condition_settling(view(pod(conditions=(gate_condition(True, since=ago(4)),))), deadlines)
    assert deadlines.requeue_after == pytest.approx(6.1)


def test_canary_requeues_at_the_end_of_its_observation() -> None:
    held = view(pod(revision="new", conditions=(gate_condition(True, since=ago(20)), READY)))
    deadlines = Deadlines(NOW)
    assert is_chosen_revision_on_trial("new", "old", [held, serving("o", "old")], 60, deadlines)
    assert deadlines.requeue_after == pytest.approx(40.1)


@pytest.mark.parametrize(
    ("still", "seconds"), [(100, 1699.1), (1798.5, 0.6), (1799, 10.1), (1799.5, 10.1), (1801, None)]
)
def test_warm_up_requeues_at_its_stall_timeout(still: float, seconds: float | None) -> None:
    found = after_problems(view(report=report(Phase.COMPILING, since_progress_seconds=still)))
    assert found.requeue_after == (None if seconds is None else pytest.approx(seconds))


def test_terminating_pod_requeues_when_it_is_overdue() -> None:
    ending = pod(terminating=True)
    ending["metadata"]["deletionTimestamp"] = stamp(NOW + timedelta(seconds=30))
    deadlines = Deadlines(NOW)
    assert count_ending_workload_pods([view(ending)], Observed(resource()), deadlines) == 1
    assert deadlines.requeue_after == pytest.approx(40.1)


@pytest.mark.parametrize("seen", [unschedulable(31), view()])
def test_decision_independent_of_time_does_not_requeue(seen: PodView) -> None:
    assert after_problems(seen).requeue_after is None


@pytest.mark.parametrize(("past", "count"), [(5, 1), (10, 0)])
def test_pod_past_its_grace_period_holds_its_cards_briefly(past: int, count: int) -> None:
    ending = pod(terminating=True)
    ending["metadata"]["deletionTimestamp"] = ago(past)
    assert count_ending_workload_pods([view(ending)], Observed(resource()), Deadlines(NOW)) == count


def test_restarted_operator_continues_the_deadline() -> None:
    cluster = starting()
    assert kstatus_after(cluster, DEADLINE - 60) == "InProgress"
    del cluster.resource["status"]
    cluster.reports.clear()
    assert kstatus_after(cluster, DEADLINE) == "Failed"
