"""A scale-down first marks the pods whose loss costs least, and then removes them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.actions import SetDeletionCost
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, GATE, REMOVED_FIRST
from gaudi_operator.core.pods.pod_view import PodCondition, PodView
from gaudi_operator.core.rollout.scale_down import (
    count_scale_down_removals,
    defer_scale_down,
    scale_down_candidates,
    scale_down_costs,
)
from gaudi_runtime.contract.report import Phase, PhaseProgressReport, RequestCountsReport
from tests.support.builders import Object
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.reports import FULL, report
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import serving, warming
from tests.unit.operator.core.stories import condition, served, status


def busy(name: str, running: int, captured: int = 8, since: int = 0, **fields: Any) -> PodView:
    """Return a pod with `running` requests and `captured` prompt graphs that has been ready for `since` seconds."""
    said = report(
        requests=RequestCountsReport(running=running),
        prompt=PhaseProgressReport(planned=8, warmed=8, captured=captured),
    )
    pod = serving(name, said=said)
    ready = PodCondition(True, "", "", NOW - timedelta(seconds=since))
    return replace(pod, conditions={**pod.conditions, "Ready": ready}, **fields)


def marked(pod: PodView) -> PodView:
    return replace(pod, deletion_cost=REMOVED_FIRST)


def chosen(costs: list[SetDeletionCost]) -> set[str]:
    return {cost.pod for cost in costs if cost.removed_first}


def test_least_loaded_pod_is_removed_first() -> None:
    assert chosen(scale_down_costs([busy("a", 9), busy("b", 0), busy("c", 4)], {"new": 2})) == {"b"}


def test_pod_with_fewest_graphs_is_removed_at_equal_load() -> None:
    assert chosen(scale_down_costs([busy("a", 2), busy("b", 3, captured=5), busy("c", 2)], {"new": 2})) == {"b"}


def test_youngest_of_equal_pods_is_removed() -> None:
    pods = [busy("a", 0, since=500), busy("b", 0, since=10), busy("c", 9, since=1)]
    assert chosen(scale_down_costs(pods, {"new": 2})) == {"b"}


def test_unready_pod_is_removed_instead_of_a_ready_one() -> None:
    assert scale_down_costs([busy("a", 9), busy("b", 0), warming("c")], {"new": 2}) == []


def closed(name: str, **fields: Any) -> PodView:
    """Return a pod whose gate has just closed. The kubelet still reports the pod as ready."""
    pod = busy(name, 0, **fields)
    return replace(pod, conditions={**pod.conditions, GATE: PodCondition(False, "Recompiling", "", NOW)})


def test_pod_with_a_just_closed_gate_is_removed_first() -> None:
    assert chosen(scale_down_costs([busy("a", 0), closed("b")], {"new": 1})) == {"b"}


def test_marked_pod_is_kept_when_the_gate_of_another_closes() -> None:
    costs = scale_down_costs([marked(busy("a", 0)), closed("b")], {"new": 1})
    assert {cost.pod: cost.removed_first for cost in costs} == {"a": False, "b": True}


def test_no_cost_is_written_if_any_pod_may_be_removed() -> None:
    assert scale_down_costs([busy("a", 0), busy("b", 0)], {"new": 1}) == []


def test_groups_get_no_cost() -> None:
    assert scale_down_costs([busy("a", 9, ordinal=0), busy("b", 0, ordinal=1)], {"new": 1}) == []


def test_no_cost_is_written_if_all_pods_are_removed() -> None:
    assert scale_down_costs([busy("a", 7), busy("b", 0)], {"new": 0}) == []


def test_choice_is_kept_when_the_load_changes() -> None:
    assert scale_down_costs([marked(busy("a", 9)), busy("b", 0)], {"new": 1}) == []


def test_cost_is_removed_when_no_pod_has_to_be_removed() -> None:
    costs = scale_down_costs([marked(busy("a", 9)), busy("b", 0)], {"new": 2})
    assert costs == [SetDeletionCost("a", "uid-of-a", "new", False, "it is no longer removed")]


def test_pod_with_a_foreign_deletion_cost_is_kept() -> None:
    assert chosen(scale_down_costs([busy("a", 0, deletion_cost=100), busy("b", 9)], {"new": 1})) == {"b"}


def test_unreachable_pod_ranks_between_idle_and_busy_ones() -> None:
    assert chosen(scale_down_costs([serving("a"), busy("b", 9)], {"new": 1})) == {"a"}
    assert chosen(scale_down_costs([serving("a"), busy("b", 0)], {"new": 1})) == {"b"}


def test_unreachable_pod_ranks_as_one_request_without_graphs() -> None:
    assert chosen(scale_down_costs([serving("a"), busy("b", 1)], {"new": 1})) == {"a"}
    assert scale_down_costs([serving("a"), busy("b", 1, captured=0)], {"new": 1}) == []


def test_pod_of_an_engine_without_graphs_ranks_as_fully_captured() -> None:
    none = PhaseProgressReport(planned=8, warmed=8, preparation="Nothing")
    plain = serving("a", said=report(prompt=none, decode=none))
    assert scale_down_costs([plain, busy("b", 0)], {"new": 1}) == []


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (busy("a", 3), "it is removed first: 3 requests run there"),
        (serving("a"), "it is removed first: it has not reported"),
        (closed("a"), "it is removed first: its gate has closed"),
    ],
    ids=["busy", "silent", "closed"],
)
def test_cost_has_the_uid_and_a_reason(pod: PodView, why: str) -> None:
    costs = scale_down_costs([pod, busy("b", 9)], {"new": 1})
    assert costs == [SetDeletionCost("a", "uid-of-a", "new", True, why)]


def test_replicas_are_lowered_only_after_the_costs_are_written() -> None:
    costs = scale_down_costs([busy("a", 9), busy("b", 0)], {"new": 1})
    assert defer_scale_down({"new": 1, "old": 0}, {"new": 2, "old": 3}, costs) == {"new": 2, "old": 0}
    assert defer_scale_down({"new": 1}, {"new": 2}, []) == {"new": 1}


def test_no_pod_is_added_while_costs_are_pending() -> None:
    costs = scale_down_costs([busy("a", 9), busy("b", 0)], {"new": 1})
    assert defer_scale_down({"new": 1, "next": 3}, {"new": 2, "next": 1}, costs) == {"new": 2, "next": 2}
    assert defer_scale_down({"new": 1, "next": 1}, {"new": 2}, costs) == {"new": 2, "next": 0}


def test_ready_pods_above_the_desired_replicas_await_removal() -> None:
    assert count_scale_down_removals([busy("a", 9), busy("b", 0)], {"new": 1}) == 1
    assert count_scale_down_removals([busy("a", 9), busy("b", 0)], {"new": 2}) == 0


def test_unready_pods_are_removed_before_ready_ones() -> None:
    assert count_scale_down_removals([busy("a", 9), warming("b")], {"new": 1}) == 0
    assert count_scale_down_removals([busy("a", 9), marked(closed("b"))], {"new": 1}) == 0


def test_pod_with_a_just_closed_gate_needs_no_cost() -> None:
    assert count_scale_down_removals([busy("a", 9), closed("b")], {"new": 1}) == 1


def test_all_pods_of_a_deleted_workload_may_be_removed() -> None:
    assert count_scale_down_removals([busy("a", 9), warming("b")], {}) == 1


def test_groups_with_the_highest_index_await_removal() -> None:
    pods = [busy("a", 9, ordinal=0), warming("b"), busy("c", 0, ordinal=2)]
    assert count_scale_down_removals(pods, {"new": 2}) == 1


PODS = st.lists(
    st.builds(busy, st.uuids().map(str), st.integers(0, 9), captured=st.integers(0, 8), since=st.integers(0, 99)),
    max_size=8,
)


@given(PODS, st.integers(-1, 9))
def test_removed_pods_never_have_more_load_than_kept_ones(pods: list[PodView], count: int) -> None:
    gone = scale_down_candidates(pods, count)
    assert len(gone) in (0, count)
    stay = [pod for pod in pods if pod not in gone]
    if gone:
        assert max(map(load, gone)) <= min(map(load, stay))


@given(PODS, st.integers(0, 9), st.lists(st.integers(0, 9), min_size=8, max_size=8))
def test_second_decision_changes_no_costs_despite_new_requests(
    pods: list[PodView], desired: int, later: list[int]
) -> None:
    names = chosen(scale_down_costs(pods, {"new": desired}))
    after = [
        replace(
            pod,
            report=report(requests=RequestCountsReport(running=running)),
            deletion_cost=pod.name in names and REMOVED_FIRST,
        )
        for pod, running in zip(pods, later, strict=False)
    ]
    assert not names or scale_down_costs(after, {"new": desired}) == []


def load(pod: PodView) -> int:
    assert pod.report
    return pod.report.requests.running.bit_length()


def report_running_requests(cluster: Cluster, name: str, running: int) -> None:
    cluster.report(name, Phase.SERVING, prompt=FULL, requests=RequestCountsReport(running=running))


def costs(cluster: Cluster) -> list[str]:
    pods: list[Object] = cluster.kind("Pod")
    return [pod["metadata"]["name"] for pod in pods if DELETION_COST_ANNOTATION in pod["metadata"]["annotations"]]


def test_idle_pod_is_marked_before_the_replicas_are_lowered() -> None:
    cluster = served(replicas=3)
    one, idle, other = (pod["metadata"]["name"] for pod in cluster.kind("Pod"))
    report_running_requests(cluster, one, 5)
    report_running_requests(cluster, other, 2)
    cluster.change(replicas=2)
    plan = cluster.operate()
    assert (costs(cluster), cluster.kind("ReplicaSet")[0]["spec"]["replicas"]) == ([idle], 3)
    assert plan.requeue_after is not None
    assert plan.requeue_after < 1
    assert condition(cluster, "Ready") == ("False", "ScalingDown")
    cluster.operate()
    assert cluster.kind("ReplicaSet")[0]["spec"]["replicas"] == 2
    cluster.settle()
    assert [pod["metadata"]["name"] for pod in cluster.kind("Pod")] == [one, other]
    assert (costs(cluster), status(cluster)["readyReplicas"]) == ([], 2)


def test_cancelled_scale_down_removes_the_deletion_cost() -> None:
    cluster = served(replicas=2)
    report_running_requests(cluster, cluster.kind("Pod")[0]["metadata"]["name"], 5)
    cluster.change(replicas=1)
    cluster.operate()
    assert costs(cluster)
    cluster.change(replicas=2)
    cluster.settle()
    assert costs(cluster) == []
    assert cluster.operate().actions == ()
