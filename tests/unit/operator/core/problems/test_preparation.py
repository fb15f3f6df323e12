"""A pod that waits too long for its volumes has a problem with a remedy."""

from datetime import timedelta

import pytest

from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.criteria import Room
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import problem_of, state_of

ROOM = Room(to_come=False)


def unprepared(seconds: int) -> PodView:
    """Return a scheduled pod that has had no sandbox for `seconds`."""
    since = stamp(NOW - timedelta(seconds=seconds))
    prepared = condition("PodReadyToStartContainers", False, since=since)
    return view(pod(container=None, phase="Pending", conditions=(condition("PodScheduled", True), prepared)))


def test_pod_waiting_long_for_volumes_has_a_problem() -> None:
    assert problem_of(unprepared(181), state_of(), ROOM) == Problem(
        "PodNotPrepared",
        "Pod a has a node and has waited for its volumes or its network for more than 180 s. The events of "
        "`kubectl describe pod a` name what is missing.",
        since=NOW - timedelta(seconds=181),
    )


def test_pod_that_waits_for_claims_names_them() -> None:
    volumes = [{"name": "model", "persistentVolumeClaim": {"claimName": "models"}}]
    revision = Revision("r1", 1, {}, {"spec": {"volumes": volumes}}, "")
    found = problem_of(unprepared(181), state_of(stored=(revision,)), ROOM)
    assert found is not None
    assert found.message.endswith(
        "It mounts PersistentVolumeClaim models (spec.model.source.persistentVolumeClaim.claimName). A ReadWriteOnce "
        "PVC serves the pods of one node only: use ReadWriteMany, or spec.pod.nodeSelector."
    )


def test_pod_waiting_briefly_for_volumes_has_no_problem() -> None:
    assert problem_of(unprepared(179), state_of(), ROOM) is None


def test_pod_with_its_volumes_has_no_problem() -> None:
    prepared = condition("PodReadyToStartContainers", True)
    assert problem_of(view(pod(conditions=(prepared,))), state_of(), ROOM) is None


def test_pod_without_its_volumes_requeues_at_its_deadline() -> None:
    state = state_of()
    assert problem_of(unprepared(170), state, ROOM) is None
    assert state.deadlines.requeue_after == pytest.approx(10.1)
