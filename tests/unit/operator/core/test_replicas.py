"""The workloads of all revisions, as the rollout counts them."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.planner import RevisionPods
from gaudi_operator.core.rollout.replicas import count_pods, revision_of, with_workloads
from gaudi_operator.core.rollout.revision import Group, Revision
from tests.builders import Object
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.states import closed, serving, warming

NEW, OLD = Revision("new", 2, {}, {}, ""), Revision("old", 1, {}, {}, "")
PODS = {"metadata": {"labels": {REVISION_LABEL: "old"}}}


def replica_set(name: str, replicas: int) -> Object:
    metadata = {"name": f"tiny-{name}", "uid": f"u-{name}", "labels": {REVISION_LABEL: name}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": replicas}}


def counted(*pods: PodView, new: int = 2, old: int = 4) -> tuple[RevisionPods, list[RevisionPods]]:
    workloads = (replica_set("new", new), replica_set("old", old))
    return count_pods(NEW, [NEW, OLD], Observed(resource(), replica_sets=workloads), pods)


@pytest.mark.parametrize(
    "spec",
    [
        {"template": PODS},
        {"leaderWorkerTemplate": {"leaderTemplate": PODS, "workerTemplate": {}}},
        {"leaderWorkerTemplate": {"workerTemplate": PODS}},
    ],
)
def test_workload_without_its_label_has_the_revision_of_its_pods(spec: dict[str, Any]) -> None:
    assert revision_of({"metadata": {"name": "tiny-old"}, "spec": spec}) == "old"


def test_strangers_workload_has_no_revision() -> None:
    assert revision_of({"metadata": {"name": "other"}, "spec": {}}) == ""


def test_pods_without_a_node_and_those_not_made_are_unplaced() -> None:
    waiting = view(pod("w", revision="new", container=None, phase="Pending"))
    bound = view(
        pod("b", revision="new", container=None, phase="Pending", conditions=(condition("PodScheduled", True),))
    )
    assert counted(waiting, bound, new=4)[0].unplaced == 3


def test_ready_and_served_pods_are_counted_by_revision() -> None:
    mine, (old,) = counted(serving("a"), closed("b"), serving("o", "old"), warming("p", "old"))
    assert (mine.replicas, mine.ready, mine.served) == (2, 1, 2)
    assert (old.name, old.number, old.replicas, old.ready, old.served) == ("old", 1, 4, 1, 1)


def group(number: int, found: PodView) -> PodView:
    return replace(found, ordinal=number)


def test_group_before_one_that_serves_counts_as_serving() -> None:
    _, (old,) = counted(group(0, warming("a", "old")), group(2, serving("c", "old")))
    assert (old.ready, old.served) == (3, 3)


def test_groups_of_which_none_serves_protect_nobody() -> None:
    _, (old,) = counted(group(0, warming("a", "old")), group(1, warming("b", "old")))
    assert (old.ready, old.served) == (0, 0)


def test_group_that_has_served_is_not_given_up() -> None:
    away = replace(closed("b"), revision="old", ordinal=1)
    _, (old,) = counted(group(0, warming("a", "old")), away)
    assert (old.ready, old.served) == (0, 2)


def test_deleted_revision_is_read_back_from_its_workload() -> None:
    templates = {"size": 2, "leaderTemplate": {"leader": True}, "workerTemplate": {"worker": True}}
    labels = {REVISION_LABEL: "old"}
    workload = {"metadata": {"name": "tiny-old", "labels": labels}, "spec": {"leaderWorkerTemplate": templates}}
    found = with_workloads([], Observed(resource(), leader_worker_sets=(workload,)))
    assert found == [Revision("old", 0, {}, {"leader": True}, "", group=Group(2, {"worker": True}))]
