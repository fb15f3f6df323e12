"""The replicas of the workloads of all revisions, as the rollout counts them."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import DESIRED_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.revision import Revision, RevisionPodGroup
from gaudi_operator.core.rollout.rollout_step import RolloutStepPodCounts
from gaudi_operator.core.rollout.workload_replicas import (
    count_ending_workload_pods,
    count_workload_pods,
    full_replicas,
    full_replicas_by_revision,
    revision_of_workload,
    revisions_with_workloads,
)
from tests.unit.operator.core.pod_objects import condition, pod, replica_set, view
from tests.unit.operator.core.resources import NOW, resource
from tests.unit.operator.core.states import closed, serving, warming

NEW, OLD = Revision("new", 2, {}, {}, ""), Revision("old", 1, {}, {}, "")
PODS = {"metadata": {"labels": {REVISION_LABEL: "old"}}}


def counted(*pods: PodView, new: int = 2, old: int = 4) -> tuple[RolloutStepPodCounts, list[RolloutStepPodCounts]]:
    workloads = (replica_set("new", new), replica_set("old", old))
    return count_workload_pods(NEW, [NEW, OLD], Observed(resource(), replica_sets=workloads), pods)


@pytest.mark.parametrize(
    "spec",
    [
        {"template": PODS},
        {"leaderWorkerTemplate": {"leaderTemplate": PODS, "workerTemplate": {}}},
        {"leaderWorkerTemplate": {"workerTemplate": PODS}},
    ],
)
def test_revision_of_an_unlabelled_workload_comes_from_its_pods(spec: dict[str, Any]) -> None:
    assert revision_of_workload({"metadata": {"name": "tiny-old"}, "spec": spec}) == "old"


def test_foreign_workload_has_no_revision() -> None:
    assert revision_of_workload({"metadata": {"name": "other"}, "spec": {}}) == ""


def test_unscheduled_and_missing_pods_are_counted_as_unplaced() -> None:
    waiting = view(pod("w", revision="new", container=None, phase="Pending"))
    bound = view(
        pod("b", revision="new", container=None, phase="Pending", conditions=(condition("PodScheduled", True),))
    )
    assert counted(waiting, bound, new=4)[0].unplaced == 3
    assert counted(bound, new=1)[0].unplaced == 0


def test_ready_and_served_pods_are_counted_by_revision() -> None:
    mine, (old,) = counted(serving("a"), closed("b"), serving("o", "old"), warming("p", "old"))
    assert (mine.replicas, mine.ready, mine.served) == (2, 1, 2)
    assert (old.name, old.number, old.replicas, old.ready, old.served) == ("old", 1, 4, 1, 1)


def group(number: int, found: PodView) -> PodView:
    return replace(found, ordinal=number)


def test_group_before_a_serving_one_counts_as_serving() -> None:
    _, (old,) = counted(group(0, warming("a", "old")), group(2, serving("c", "old")))
    assert (old.ready, old.served) == (3, 3)


def test_first_serving_group_counts_only_itself_as_served() -> None:
    _, (old,) = counted(group(0, serving("a", "old")), group(1, warming("b", "old")))
    assert (old.ready, old.served) == (1, 1)


def test_groups_that_never_served_are_not_counted_as_served() -> None:
    _, (old,) = counted(group(0, warming("a", "old")), group(1, warming("b", "old")))
    assert (old.ready, old.served) == (0, 0)


def test_group_that_served_earlier_counts_as_served() -> None:
    away = replace(closed("b"), revision="old", ordinal=1)
    _, (old,) = counted(group(0, warming("a", "old")), away)
    assert (old.ready, old.served) == (0, 2)


def test_deleted_revision_is_counted_as_the_oldest() -> None:
    workloads = (replica_set("new", 1), replica_set("gone", 1))
    _, (gone,) = count_workload_pods(NEW, [NEW], Observed(resource(), replica_sets=workloads), [])
    assert (gone.name, gone.number) == ("gone", 0)


@pytest.mark.parametrize(
    ("annotations", "spec", "replicas"),
    [
        ({}, {"replicas": 3}, 3),
        ({}, {}, 1),
        ({DESIRED_ANNOTATION: "2"}, {"replicas": 0}, 2),
        ({DESIRED_ANNOTATION: "0"}, {"replicas": 3}, 0),
        ({DESIRED_ANNOTATION: "-1"}, {"replicas": 3}, 3),
        ({DESIRED_ANNOTATION: "many"}, {"replicas": 3}, 3),
    ],
)
def test_workload_regains_its_replicas_after_a_back_off(
    annotations: dict[str, str], spec: dict[str, int], replicas: int
) -> None:
    assert full_replicas({"metadata": {"annotations": annotations}, "spec": spec}) == replicas


def test_terminating_workload_has_no_replicas() -> None:
    going = replica_set("old", 2)
    going["metadata"]["deletionTimestamp"] = "2026-08-01T11:00:00Z"
    assert full_replicas_by_revision(Observed(resource(), replica_sets=(going,))) == {}


def test_pods_of_a_deleted_workload_are_terminating() -> None:
    assert count_ending_workload_pods([serving("a", "gone")], Observed(resource()), Deadlines(NOW)) == 1


def test_stored_revision_of_a_workload_is_used() -> None:
    observed = Observed(resource(), replica_sets=(replica_set("old", 2),))
    assert revisions_with_workloads([NEW, OLD], observed) == [OLD]


def test_deleted_revision_is_restored_from_its_replica_set() -> None:
    workload = replica_set("old", 2)
    workload["spec"]["template"] = PODS
    assert revisions_with_workloads([], Observed(resource(), replica_sets=(workload,))) == [
        Revision("old", 0, {}, PODS, "")
    ]


@pytest.mark.parametrize(("said", "size"), [({"size": 2}, 2), ({}, 1)])
def test_deleted_revision_is_restored_from_its_groups(said: dict[str, int], size: int) -> None:
    templates = {**said, "leaderTemplate": {"leader": True}, "workerTemplate": {"worker": True}}
    labels = {REVISION_LABEL: "old"}
    workload = {"metadata": {"name": "tiny-old", "labels": labels}, "spec": {"leaderWorkerTemplate": templates}}
    found = revisions_with_workloads([], Observed(resource(), leader_worker_sets=(workload,)))
    assert found == [Revision("old", 0, {}, {"leader": True}, "", group=RevisionPodGroup(size, {"worker": True}))]
