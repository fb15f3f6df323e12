"""When the clock alone can change a judgement."""

from datetime import timedelta

import pytest

from gaudi_operator.core.deadlines import asks_first, look_again_seconds
from gaudi_operator.core.pods.view import PodView
from gaudi_runtime.contract.report import Phase
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW

READY = condition("Ready", True)


def unschedulable(seconds: int, terminating: bool = False) -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    scheduled = condition("PodScheduled", False, "Unschedulable", "", since)
    return view(pod(container=None, conditions=(scheduled,), terminating=terminating))


def just_opened(seconds: int) -> PodView:
    return view(pod(conditions=(gate_condition(True, since=stamp(NOW - timedelta(seconds=seconds))),)))


def test_pod_without_a_node_is_looked_at_when_its_patience_ends() -> None:
    assert look_again_seconds([unschedulable(12)], None, NOW) == pytest.approx(18.1)


def test_workload_that_is_refused_its_pods_is_looked_at_when_the_patience_ends() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": stamp(NOW - timedelta(seconds=12))}
    workloads = [{"status": {"conditions": [refused]}}, {"metadata": {}}]
    assert look_again_seconds([], None, NOW, workloads=workloads) == pytest.approx(18.1)


def test_opened_gate_is_looked_at_when_the_kubelet_should_have_followed() -> None:
    assert look_again_seconds([just_opened(4)], None, NOW) == pytest.approx(6.1)


def test_first_of_all_waits_counts() -> None:
    assert look_again_seconds([unschedulable(12), just_opened(4)], 1.5, NOW) == pytest.approx(1.6)


def test_canary_is_looked_at_when_it_has_been_observed() -> None:
    held = view(pod(conditions=(gate_condition(True, since=stamp(NOW - timedelta(seconds=20))), READY)))
    assert look_again_seconds([held], None, NOW, observe_seconds=60) == pytest.approx(40.1)


@pytest.mark.parametrize(("still", "seconds"), [(100, 1699.1), (1799.5, 10.1), (1801, None)])
def test_warmup_that_may_stand_still_is_looked_at_although_its_report_does_not_change(
    still: float, seconds: float | None
) -> None:
    seen = view(report=report(Phase.COMPILING, since_progress_seconds=still))
    found = look_again_seconds([seen], None, NOW, stall_seconds=1800)
    assert found == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(("still", "asks"), [(100, True), (1799.5, True), (1801, False)])
def test_pods_are_asked_before_a_warmup_is_said_to_stand_still(still: float, asks: bool) -> None:
    seen = [view(report=report(Phase.COMPILING, since_progress_seconds=still))]
    wait = look_again_seconds(seen, None, NOW, stall_seconds=1800)
    assert asks_first(seen, wait, NOW, 1800) is asks


def test_pods_are_not_asked_before_other_judgements() -> None:
    seen = [view(report=report(Phase.COMPILING, since_progress_seconds=100))]
    assert not asks_first(seen, 2.0, NOW, 1800)


def test_pod_that_ends_is_looked_at_when_it_is_overdue() -> None:
    ending = pod(terminating=True)
    ending["metadata"]["deletionTimestamp"] = stamp(NOW + timedelta(seconds=30))
    assert look_again_seconds([view(ending)], None, NOW) == pytest.approx(40.1)


@pytest.mark.parametrize("seen", [unschedulable(31), just_opened(11), unschedulable(12, terminating=True), view()])
def test_judgement_that_time_does_not_change_asks_for_nothing(seen: PodView) -> None:
    assert look_again_seconds([seen], None, NOW) is None
