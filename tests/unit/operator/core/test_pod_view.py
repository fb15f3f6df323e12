"""What decisions see of a pod, or of the pods of a group."""

from gaudi_operator.core.names import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, GROUP_SIZE_ANNOTATION
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.view import PodView, read_pods
from tests.builders import Object
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.resources import NOW, resource

SCHEDULED = condition("PodScheduled", True)
UNSCHEDULABLE = condition("PodScheduled", False, "Unschedulable", "0/1 nodes are available")


def group_pod(name: str, *conditions: Object) -> Object:
    """A pod of group 3 of two pods, before any kubelet has looked at it."""
    found = pod(name, container=None, phase="Pending", conditions=conditions)
    found["metadata"]["labels"] |= {GROUP_NAME_LABEL: "tiny-r1", GROUP_INDEX_LABEL: "3"}
    found["metadata"]["annotations"] |= {GROUP_SIZE_ANNOTATION: "2"}
    return found


def group(leader: Object, *workers: Object) -> PodView:
    (found,) = read_pods(Observed(resource(), pods=(leader,), workers=workers, now=NOW))
    return found


def test_pod_is_placed_from_when_the_scheduler_has_bound_it() -> None:
    bound, waiting = (pod(container=None, phase="Pending", conditions=(each,)) for each in (SCHEDULED, UNSCHEDULABLE))
    assert (view(bound).placed, view(waiting).placed) == (True, False)


def test_pod_the_scheduler_has_not_looked_at_is_not_placed() -> None:
    assert not view(pod(container=None, phase="Pending")).placed


def test_group_is_placed_once_all_its_pods_are() -> None:
    leader = group_pod("a", SCHEDULED)
    whole = group(leader, group_pod("a-1", SCHEDULED))
    assert (whole.placed, whole.ordinal, [each.name for each in whole.workers]) == (True, 3, ["a-1"])
    assert not group(leader).placed
    assert not group(leader, group_pod("a-1", UNSCHEDULABLE)).placed


def test_group_says_what_the_scheduler_says_of_its_unplaced_pod() -> None:
    found = group(group_pod("a", SCHEDULED), group_pod("a-1", UNSCHEDULABLE))
    assert found.conditions["PodScheduled"].message == "0/1 nodes are available"


def test_failed_pod_without_any_time_ended_nobody_knows_when() -> None:
    assert view(pod(phase="Failed", container=None)).ended_at is None
