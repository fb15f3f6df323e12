"""Scenarios of decide() for upgrades: with a surge if cards are free, otherwise in place."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.core.actions import Apply
from gaudi_operator.core.decide import decide
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.stories import condition, revisions, served, status
from tests.world import controllers

BIGGER = {"maxModelLen": 512}


def cluster_without_free_cards(replicas: int = 2, *, queue: bool = False, **rollout: Any) -> Cluster:
    """Return a cluster whose replicas use all cards, with a changed model."""
    cluster = served(replicas=replicas, rollout=rollout)
    cluster.cards, cluster.queue = replicas, queue
    cluster.change(model=BIGGER)
    return cluster


def turns(cluster: Cluster, count: int) -> list[int]:
    """Let all components act `count` times. Return the number of ready replicas after each time."""
    seen = []
    for _ in range(count):
        cluster.operate()
        cluster.controllers()
        for pod in cluster.kind("Pod"):
            cluster.warm(pod["metadata"]["name"])
        cluster.kubelet()
        seen.append(status(cluster)["readyReplicas"])
    return seen


def past_the_surge_timeout(cluster: Cluster) -> Cluster:
    """Let the surge timeout expire, and return the cluster."""
    turns(cluster, 3)
    cluster.now += timedelta(seconds=300)
    return cluster


def waiting(cluster: Cluster) -> set[str]:
    """Return the names of the unscheduled pods."""
    return {name for kind, name in cluster.objects if kind == "Pod" and not cluster.placed(name)}


def message(cluster: Cluster, kind: str) -> str:
    (found,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == kind]
    return str(found)


def marked(cluster: Cluster) -> list[str]:
    return [
        each["metadata"]["annotations"][IN_PLACE_ANNOTATION]
        for each in cluster.kind("ReplicaSet")
        if IN_PLACE_ANNOTATION in each["metadata"]["annotations"]
    ]


@pytest.mark.parametrize("deadline", [600, 60])
def test_pod_without_room_waits_and_does_not_stall(deadline: int) -> None:
    cluster = cluster_without_free_cards(obstacleDeadlineSeconds=deadline)
    turns(cluster, 3)
    cluster.now += timedelta(seconds=290)
    assert min(turns(cluster, 3)) == 2
    assert len(cluster.kind("Pod")) == 3
    assert marked(cluster) == []
    assert condition(cluster, "Stalled") == ("False", "NotStalled")
    assert condition(cluster, "Reconciling") == ("True", "Unschedulable")
    assert "If the pod stays unschedulable for 300 s (spec.rollout.surgeTimeoutSeconds), pods are replaced" in message(
        cluster, "Reconciling"
    )


@pytest.mark.parametrize(
    ("replicas", "rollout", "fewest"),
    [
        (2, {}, 1),
        (3, {}, 2),
        (8, {}, 7),
        (8, {"maxSurge": "25%", "maxUnavailable": "25%"}, 6),
        (1, {"maxUnavailable": 1}, 0),
    ],
)
def test_pods_are_replaced_in_place_after_the_surge_timeout(replicas: int, rollout: Any, fewest: int) -> None:
    cluster = cluster_without_free_cards(replicas, **rollout)
    old = revisions(cluster)
    seen = turns(past_the_surge_timeout(cluster), 12 * replicas + 10)
    assert min(seen) == fewest
    assert not revisions(cluster) & old
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_canary_replacing_an_old_pod_is_reported() -> None:
    cluster = past_the_surge_timeout(cluster_without_free_cards())
    turns(cluster, 1)
    assert "canary in place of an older pod, " in message(cluster, "Ready")


def test_second_pod_is_replaced_without_waiting_again() -> None:
    cluster = past_the_surge_timeout(cluster_without_free_cards())
    waited = waiting(cluster)
    for _ in range(25):
        turns(cluster, 1)
        waited |= waiting(cluster)
    assert len(waited) == 1
    assert not [event for event in cluster.events if event.reason in ("Stalled", "RevisionFailed")]
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_in_place_rollout_never_exceeds_the_desired_pods() -> None:
    cluster = cluster_without_free_cards()
    turns(past_the_surge_timeout(cluster), 1)
    while condition(cluster, "Ready")[0] != "True":
        turns(cluster, 1)
        desired = sum(each["spec"]["replicas"] for each in cluster.kind("ReplicaSet"))
        assert desired <= 2


def test_reason_is_kept_until_no_old_pods_are_desired() -> None:
    cluster = cluster_without_free_cards()
    turns(past_the_surge_timeout(cluster), 1)
    [why] = marked(cluster)
    assert why.endswith("0/1 nodes are available")
    turns(cluster, 25)
    assert marked(cluster) == []


def test_restarted_operator_continues_in_place() -> None:
    cluster = cluster_without_free_cards()
    turns(past_the_surge_timeout(cluster), 1)
    del cluster.resource["status"]
    cluster.reports.clear()
    turns(cluster, 30)
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_upgrade_in_a_full_queue_replaces_pods_in_place() -> None:
    cluster = cluster_without_free_cards(queue=True)
    turns(cluster, 3)
    cluster.now += timedelta(seconds=290)
    turns(cluster, 1)
    assert condition(cluster, "Reconciling") == ("True", "SchedulingGated")
    cluster.now += timedelta(seconds=10)
    turns(cluster, 1)
    [why] = marked(cluster)
    assert why.endswith("held by the scheduling gate kueue.x-k8s.io/admission")
    assert min(turns(cluster, 25)) == 1
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_only_replica_in_a_full_queue_stalls_its_upgrade() -> None:
    cluster = cluster_without_free_cards(1, queue=True, obstacleDeadlineSeconds=300)
    assert min(turns(past_the_surge_timeout(cluster), 3)) == 1
    assert condition(cluster, "Stalled") == ("True", "UpgradeBlocked")


def command(text: str) -> Any:
    """Return the merge patch of the only command in a message."""
    [patch] = re.findall(r"`kubectl patch gi tiny -n models --type merge -p '(.+)'`", text)
    return json.loads(patch)


def test_only_replica_is_kept_and_the_message_names_the_command() -> None:
    cluster = cluster_without_free_cards(1, obstacleDeadlineSeconds=300)
    assert min(turns(past_the_surge_timeout(cluster), 3)) == 1
    assert condition(cluster, "Stalled") == ("True", "UpgradeBlocked")
    assert "0/1 nodes are available" in message(cluster, "Stalled")
    cluster.change(**command(message(cluster, "Stalled"))["spec"])
    assert min(turns(cluster, 20)) == 0
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_no_second_pod_is_removed_while_one_is_lost() -> None:
    cluster = past_the_surge_timeout(cluster_without_free_cards(3))
    while status(cluster)["readyReplicas"] == 3:
        turns(cluster, 1)
    lost = next(each["name"] for each in status(cluster)["pods"] if each["ready"])
    del cluster.objects["Pod", lost]
    assert min(turns(cluster, 40)) == 1
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_blocked_upgrade_continues_when_a_card_is_free() -> None:
    cluster = past_the_surge_timeout(cluster_without_free_cards(type="Surge"))
    turns(cluster, 3)
    cluster.cards = 3
    assert min(turns(cluster, 20)) == 2
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_waiting_rollout_keeps_all_old_pods() -> None:
    cluster = cluster_without_free_cards(type="Surge", maxUnavailable=1, obstacleDeadlineSeconds=300)
    assert min(turns(past_the_surge_timeout(cluster), 3)) == 2
    assert condition(cluster, "Stalled") == ("True", "UpgradeBlocked")
    assert "because spec.rollout.type is Surge" in message(cluster, "Stalled")


@pytest.mark.parametrize("replicas", [1, 2])
def test_no_replica_is_removed_if_max_unavailable_is_zero(replicas: int) -> None:
    cluster = cluster_without_free_cards(replicas, maxUnavailable=0, obstacleDeadlineSeconds=300)
    assert min(turns(past_the_surge_timeout(cluster), 3)) == replicas
    assert condition(cluster, "Stalled") == ("True", "UpgradeBlocked")
    assert "because spec.rollout.maxUnavailable is 0." in message(cluster, "Stalled")
    cluster.change(**command(message(cluster, "Stalled"))["spec"])
    assert min(turns(cluster, 12 * replicas + 10)) == replicas - 1
    assert condition(cluster, "Ready") == ("True", "Serving")


def with_a_card_taken(replicas: int) -> Cluster:
    """Return a cluster in which an in-place replacement freed a card and another pod of the cluster took the card."""
    cluster = past_the_surge_timeout(cluster_without_free_cards(replicas, obstacleDeadlineSeconds=120))
    cluster.operate()
    controllers.advance(cluster.api, None, cluster.seconds, {cluster.resource["metadata"]["uid"]})
    cluster.cards = replicas - 1
    turns(cluster, 3)
    return cluster


def test_pod_whose_card_was_taken_is_reported_as_unschedulable() -> None:
    cluster = with_a_card_taken(3)
    cluster.now += timedelta(seconds=60)
    turns(cluster, 1)
    assert status(cluster)["readyReplicas"] == 2
    assert condition(cluster, "Ready") == ("False", "Unschedulable")
    [row] = [each for each in status(cluster)["pods"] if not each["ready"]]
    assert (row["phase"], row["message"]) == ("Unschedulable", "0/1 nodes are available")


def test_taken_card_stalls_the_rollout_while_old_pods_serve() -> None:
    cluster = with_a_card_taken(3)
    old = {each["name"] for each in status(cluster)["pods"] if each["ready"]}
    cluster.now += timedelta(seconds=120)
    assert min(turns(cluster, 5)) == 2
    assert {each["name"] for each in status(cluster)["pods"] if each["ready"]} == old
    assert condition(cluster, "Stalled") == ("True", "Unschedulable")
    assert "is unschedulable: 0/1 nodes are available" in message(cluster, "Stalled")
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")


def test_stalled_rollout_in_place_continues_when_the_card_is_free() -> None:
    cluster = with_a_card_taken(2)
    cluster.now += timedelta(seconds=120)
    turns(cluster, 3)
    cluster.cards = 2
    assert min(turns(cluster, 25)) == 1
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_rollout_continues_in_place_after_its_surge_card_is_lost() -> None:
    cluster = cluster_without_free_cards(3)
    cluster.cards = 4
    turns(cluster, 3)
    while status(cluster)["readyReplicas"] < 4:
        turns(cluster, 1)
    cluster.cards = 3
    assert min(turns(past_the_surge_timeout(cluster), 40)) == 2
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_quota_refusal_starts_replacement_in_place() -> None:
    cluster = served()
    cluster.change(model=BIGGER)
    cluster.operate()
    new = next(each for each in cluster.kind("ReplicaSet") if each["spec"]["replicas"] == 1)
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: cards"}
    refused["lastTransitionTime"] = "2026-08-01T11:00:00Z"
    new["status"] = {"conditions": [refused]}
    cluster.operate()
    [why] = marked(cluster)
    assert why.endswith("exceeded quota: cards")


def test_quota_refusal_waits_until_the_surge_timeout() -> None:
    cluster = served(rollout={"surgeTimeoutSeconds": 20})
    cluster.change(model=BIGGER)
    for _ in range(3):  # the creation time of the revision is observed later
        cluster.operate()
    new = next(each for each in cluster.kind("ReplicaSet") if each["spec"]["replicas"] == 1)
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: cards"}
    new["status"] = {"conditions": [{**refused, "lastTransitionTime": stamp(cluster.now)}]}
    again = cluster.operate().requeue_after
    assert again == pytest.approx(19.1)
    assert condition(cluster, "Stalled") == ("False", "NotStalled")
    cluster.now += timedelta(seconds=again)
    cluster.operate()
    assert len(marked(cluster)) == 1


def test_scale_up_beyond_the_cards_is_not_an_upgrade() -> None:
    cluster = served(rollout={"obstacleDeadlineSeconds": 300})
    cluster.cards = 2
    cluster.change(replicas=3)
    turns(past_the_surge_timeout(cluster), 3)
    assert condition(cluster, "Stalled") == ("True", "Unschedulable")
    assert marked(cluster) == []


def test_in_place_rollout_removes_old_pods_before_adding_new() -> None:
    cluster = cluster_without_free_cards(type="InPlace")
    for _ in range(3):  # the ReplicaSet controller, or the watch of pods, is late
        cluster.operate()
    sets = {each["metadata"]["name"]: each["spec"]["replicas"] for each in cluster.kind("ReplicaSet")}
    assert sorted(sets.values()) == [0, 1]
    assert len(cluster.kind("Pod")) == 2


def test_new_workload_is_created_before_another_is_scaled_down() -> None:
    cluster = served(rollout={"type": "InPlace"})
    (old,) = cluster.kind("ReplicaSet")
    cluster.change(model=BIGGER)
    plan = decide(cluster.observed(), cluster.defaults)
    written = [action.manifest for action in plan.actions if isinstance(action, Apply)]
    scales = [
        (each["metadata"]["name"] == old["metadata"]["name"], each["spec"]["replicas"])
        for each in written
        if each["kind"] == "ReplicaSet"
    ]
    assert scales == [(False, 0), (True, 1)]
