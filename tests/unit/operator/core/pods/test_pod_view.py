"""The view of a pod, or of the pods of a group, on which decide() works."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.core.names import CONTAINER, GROUP_INDEX_LABEL, GROUP_NAME_LABEL, GROUP_SIZE_ANNOTATION
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import (
    ContainerExitView,
    ContainerStateView,
    PodCondition,
    PodView,
    read_pod_views,
)
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, resource

SCHEDULED = condition("PodScheduled", True)
UNSCHEDULABLE = condition("PodScheduled", False, "Unschedulable", "0/1 nodes are available")


def group_pod(name: str, *conditions: Object) -> Object:
    """Return an unscheduled pod of group 3, which has two pods."""
    found = pod(name, container=None, phase="Pending", conditions=conditions)
    found["metadata"]["labels"] |= {GROUP_NAME_LABEL: "tiny-r1", GROUP_INDEX_LABEL: "3"}
    found["metadata"]["annotations"] |= {GROUP_SIZE_ANNOTATION: "2"}
    return found


def group(leader: Object, *workers: Object) -> PodView:
    (found,) = read_pod_views(Observed(resource(), pods=(leader,), workers=workers, now=NOW))
    return found


def test_pod_is_placed_when_it_is_scheduled() -> None:
    bound, waiting = (pod(container=None, phase="Pending", conditions=(each,)) for each in (SCHEDULED, UNSCHEDULABLE))
    assert (view(bound).is_scheduled, view(waiting).is_scheduled) == (True, False)


def test_pod_without_a_scheduler_decision_is_not_placed() -> None:
    assert not view(pod(container=None, phase="Pending")).is_scheduled


def test_group_is_placed_when_all_its_pods_are() -> None:
    leader = group_pod("a", SCHEDULED)
    whole = group(leader, group_pod("a-1", SCHEDULED))
    assert (whole.is_scheduled, whole.ordinal, [each.name for each in whole.workers]) == (True, 3, ["a-1"])
    assert not group(leader).is_scheduled
    assert not group(leader, group_pod("a-1", UNSCHEDULABLE)).is_scheduled


def test_group_has_the_scheduler_message_of_its_unplaced_pod() -> None:
    found = group(group_pod("a", SCHEDULED), group_pod("a-1", UNSCHEDULABLE))
    assert found.conditions["PodScheduled"].message == "0/1 nodes are available"


def test_workers_of_a_group_are_sorted_by_name() -> None:
    found = group(group_pod("a"), group_pod("a-2"), group_pod("a-1"))
    assert [each.name for each in found.workers] == ["a-1", "a-2"]


def test_group_waits_for_a_pod_without_a_scheduler_decision() -> None:
    found = group(group_pod("a", SCHEDULED), group_pod("a-1"))
    assert (found.is_scheduled, found.conditions["PodScheduled"].is_true) == (False, True)


def test_leader_of_a_group_of_unknown_size_needs_no_workers() -> None:
    leader = group_pod("a", SCHEDULED)
    del leader["metadata"]["annotations"][GROUP_SIZE_ANNOTATION]
    assert group(leader).is_scheduled


@pytest.mark.parametrize("label", [GROUP_NAME_LABEL, GROUP_INDEX_LABEL])
def test_pod_without_group_name_or_index_is_not_grouped(label: str) -> None:
    leader = group_pod("a", SCHEDULED)
    del leader["metadata"]["labels"][label]
    assert (group(leader).group_size, group(leader).ordinal) == (1, None)


def test_pod_without_conditions_waits_for_its_kubelet() -> None:
    found = view({"metadata": {"name": "a", "uid": "uid-of-a"}}, report())
    assert (found.revision, found.phase, found.deletion_cost) == ("", "Pending", 0)
    assert (found.report, found.is_active, found.is_ready) == (None, True, False)


def test_report_is_ignored_for_a_pod_without_plan_hash() -> None:
    nameless = pod()
    del nameless["metadata"]["annotations"]
    assert view(nameless, report()).report is None


def test_fields_omitted_by_kubernetes_are_empty() -> None:
    manifest = pod(conditions=({"type": "Ready", "status": "True"},))
    manifest["status"]["containerStatuses"] = [{"name": CONTAINER}]
    found = view(manifest)
    assert found.conditions == {"Ready": PodCondition(is_true=True, reason="", message="", since=None)}
    assert found.container == ContainerStateView(id="", running=False)


def test_termination_without_reason_and_code_is_an_error() -> None:
    at = NOW - timedelta(seconds=9)
    found = view(pod(state={"terminated": {"finishedAt": stamp(at)}}))
    assert found.container
    assert found.container.last_exit == ContainerExitView("Error", 0, "", began_at=None, ended_at=at)


@pytest.mark.parametrize(
    ("message", "shown"),
    [("The report is too large.", "The report is too large."), (None, "Its report could not be read.")],
)
def test_unreadable_report_has_its_reason(message: str | None, shown: str) -> None:
    assert view(pod(), ignored_reason=message).ignored_reason == shown


def test_report_of_a_previous_container_is_marked() -> None:
    found = view(pod(container="c2"), report(), container_id="c1")
    assert found.ignored_reason == "Its report is from a container that no longer runs."


LATEST = stamp(NOW)
EARLIER = stamp(NOW - timedelta(seconds=60))


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"name": "another", "state": {"terminated": {"finishedAt": LATEST}}}]},
        {"conditions": [condition("Ready", False, since=LATEST)]},
        {"startTime": LATEST},
    ],
    ids=["a container ended", "a condition turned", "it was taken"],
)
def test_failed_pod_ended_at_its_latest_recorded_time(status: dict[str, Any]) -> None:
    failed = pod(phase="Failed", container=None, conditions=(condition("PodScheduled", True, since=EARLIER),))
    failed["metadata"]["creationTimestamp"] = EARLIER
    failed["status"] |= status
    assert view(failed).ended_at == NOW


def test_failed_pod_without_other_times_ended_at_its_creation() -> None:
    failed = pod(phase="Failed", container=None)
    failed["metadata"]["creationTimestamp"] = LATEST
    assert (view(failed).ended_at, view(failed).end_message) == (NOW, "its node reported no reason.")


def test_running_pod_has_no_end_despite_creation_time_and_reason() -> None:
    running = pod()
    running["metadata"]["creationTimestamp"] = LATEST
    running["status"]["reason"] = "NodeLost"
    found = view(running)
    assert (found.end_message, found.ended_at, found.ended_reason) == (None, None, None)


def test_failed_pod_without_any_time_has_no_end_time() -> None:
    assert view(pod(phase="Failed", container=None)).ended_at is None
