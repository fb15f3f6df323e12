"""What mode auto makes of the scheduler's answer."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.scaling import Rollout, RolloutMode
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.mode import unblock, why_in_place
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import warming

AUTO = Rollout(max_unavailable=1)
ANSWER = "The scheduler found no room beside the old pods for 300 s: 0/1 nodes are available"


def waiting(seconds: int, name: str = "n") -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    scheduled = condition("PodScheduled", False, "Unschedulable", "0/1 nodes are available", since)
    return view(pod(name, revision="new", container=None, phase="Pending", conditions=(scheduled,)))


def replica_set(annotation: str | None = None, refused_for: int | None = None) -> Object:
    annotations = {IN_PLACE_ANNOTATION: annotation} if annotation else {}
    conditions = []
    if refused_for is not None:
        since = stamp(NOW - timedelta(seconds=refused_for))
        refusal = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: cards"}
        conditions.append({**refusal, "lastTransitionTime": since})
    return {"metadata": {"name": "tiny-new", "annotations": annotations}, "status": {"conditions": conditions}}


def answer(
    rollout: Rollout = AUTO, live: Object | None = None, pods: tuple[PodView, ...] = (), **fields: Any
) -> str | None:
    return why_in_place(rollout, 3, live, pods, Deadlines(NOW), **fields)


def test_pod_without_node_for_the_surge_timeout_is_the_answer() -> None:
    assert answer(pods=(waiting(300),)) == ANSWER
    assert answer(pods=(waiting(299),)) is None


def test_surge_timeout_is_the_specs() -> None:
    hurried = Rollout(max_unavailable=1, surge_timeout_seconds=7)
    assert (answer(hurried, pods=(waiting(7),)) or "").startswith(
        "The scheduler found no room beside the old pods for 7"
    )
    assert answer(hurried, pods=(waiting(6),)) is None


def test_quota_for_the_surge_timeout_is_the_answer() -> None:
    found = "No pod beside the old ones was allowed for 300 s: exceeded quota: cards"
    assert answer(live=replica_set(refused_for=300)) == found
    assert answer(live=replica_set(refused_for=299)) is None


def test_answer_on_the_replica_set_is_not_asked_for_again() -> None:
    assert answer(live=replica_set("no card was free"), pods=(warming(),)) == "no card was free"


def test_one_pod_with_a_node_is_answer_enough() -> None:
    assert answer(pods=(warming(), waiting(300))) is None


def test_pods_that_still_end_may_make_the_room() -> None:
    assert answer(pods=(waiting(300),), room_to_come=True) is None


@pytest.mark.parametrize(
    "rollout",
    [
        Rollout(),
        Rollout(max_unavailable="10%"),
        Rollout(mode=RolloutMode.SURGE, max_unavailable=1),
        Rollout(mode=RolloutMode.IN_PLACE, max_unavailable=1),
    ],
    ids=str,
)
def test_nobody_asks_where_none_may_miss_or_mode_is_said(rollout: Rollout) -> None:
    assert answer(rollout, replica_set("no card was free", refused_for=300), (waiting(300),)) is None


def test_what_unblocks_depends_on_the_mode() -> None:
    told = (
        "No old pod goes before a new one is ready, as {}. Free or add cards, or set {}spec.rollout.maxUnavailable to "
        "1 or more: then pods are replaced in place."
    )
    assert unblock(Rollout()) == told.format("spec.rollout.maxUnavailable comes to 0", "")
    assert unblock(Rollout(mode=RolloutMode.SURGE)) == told.format("spec.rollout.mode is Surge", "mode to Auto and ")
