"""Every situation of a rollout of up to three replicas has the conditions of the truth table."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import copied
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.status.truth_table import (
    DEADLINE_SECONDS,
    SURGE_SECONDS,
    UNSCHEDULED_SECONDS,
    Facts,
    Slot,
    causes,
    facts_of,
    filled,
    place,
    seen,
    slots,
    wrong,
)
from tests.unit.operator.core.stories import condition, failing_upgrade, served

NEW = (Slot.GATED, Slot.UNSCHEDULED, Slot.PULLING, Slot.WARMING, Slot.SERVING, Slot.MISSING)
FAILS = {Slot.FAILED: "ModelNotFound", Slot.BELOW: "WarmupIncomplete"}
HELD = (Slot.GATED, Slot.UNSCHEDULED)
WAIT = {"type": "Surge"}


def upgrading(wanted: int, **rollout: Any) -> Cluster:
    """Return a cluster whose canary was just created. All old pods serve."""
    cluster = served(replicas=wanted, rollout=rollout)
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.controllers()
    return cluster


def canary_states(start: Cluster, slot: Slot, **turn: Any) -> Iterator[tuple[int, Cluster]]:
    """Yield the cluster with the canary in the state `slot`, once for each possible number of lost old pods."""
    old = [each["metadata"]["name"] for each in start.kind("Pod") if each["status"]["containerStatuses"][0]["ready"]]
    (canary,) = {each["metadata"]["name"] for each in start.kind("Pod")} - set(old)
    for lost in range(len(old) + 1):
        cluster = copied(start)
        place(cluster, canary, slot)
        for name in old[:lost]:
            cluster.restart(name)
        yield lost, seen(cluster, **turn)


def rollout_facts(cluster: Cluster, **given: Any) -> Facts:
    """Return the facts of a rollout. All replicas served before the rollout."""
    spec = cluster.resource["spec"]
    missing = max(int(given.get("in_place", False)), spec["rollout"].get("maxUnavailable") or 0)
    wanted = spec["replicas"]
    back = given.get("rolled_back", False)
    return facts_of(cluster, lambda serving: wanted if back else max(wanted - missing, min(wanted, serving)), **given)


@pytest.mark.parametrize("refused", [False, True], ids=["accepted", "refused"])
@pytest.mark.parametrize("paused", [False, True], ids=["moving", "paused"])
@pytest.mark.parametrize("unavailable", [None, 0, 1])
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_conditions_of_a_rollout_equal_the_truth_table(
    wanted: int, unavailable: int | None, paused: bool, refused: bool
) -> None:
    start = upgrading(wanted, maxUnavailable=unavailable)
    given = {"cause": "SettingsWrong", "lasting": True} if refused else {}
    for slot in NEW:
        for lost, cluster in canary_states(start, slot, refused=refused, paused=paused):
            assert wrong(cluster, rollout_facts(cluster, paused=paused, **given)) == [], (slot, lost)


@pytest.mark.parametrize("slot", FAILS)
@pytest.mark.parametrize("does", ["Rollback", "Pause", "paused"])
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_conditions_of_a_failed_canary_equal_the_truth_table(wanted: int, does: str, slot: Slot) -> None:
    start = upgrading(wanted, onFailure="Rollback" if does == "paused" else does)
    given: Any = {
        "Rollback": {"rolled_back": True},
        "Pause": {"cause": "RevisionFailed", "lasting": True},
        "paused": {"cause": FAILS[slot], "lasting": True, "paused": True},
    }[does]
    for lost, cluster in canary_states(start, slot, paused=does == "paused"):
        assert wrong(cluster, rollout_facts(cluster, **given)) == [], lost


@pytest.mark.parametrize(
    ("canary", "waited"),
    [
        *((None, waited) for waited in (0, UNSCHEDULED_SECONDS, DEADLINE_SECONDS)),
        *((canary, DEADLINE_SECONDS) for canary in (Slot.UNSCHEDULED, Slot.SERVING, Slot.CRASHING)),
    ],
)
@pytest.mark.parametrize(("wanted", "before"), [(1, 1), (2, 1), (2, 2)])
def test_conditions_of_old_pods_while_paused_equal_the_truth_table(
    wanted: int, before: int, canary: Slot | None, waited: int
) -> None:
    start = upgrading(before) if canary else served(replicas=before)
    start.change(replicas=wanted, model={"maxModelLen": 512}, rollout={"paused": True})
    start.operate()
    start.controllers()
    for found in slots(wanted, before):
        cluster = filled(start, found, canary=canary, waited=waited)
        given = causes((*found, canary or Slot.SERVING), waited) or [("", False)]
        expected = [
            facts_of(
                cluster, lambda serving: max(before, min(wanted, serving)), paused=True, cause=cause, lasting=lasting
            )
            for cause, lasting in given
        ]
        assert [] in [wrong(cluster, facts) for facts in expected], (found, wrong(cluster, expected[0]))


@pytest.mark.parametrize("waited", [0, DEADLINE_SECONDS])
@pytest.mark.parametrize("before", [1, 2])
def test_conditions_after_a_rollback_equal_the_truth_table(before: int, waited: int) -> None:
    start, _, _ = failing_upgrade()
    start.change(replicas=before)
    start.settle()
    start.change(replicas=2)
    start.operate()
    start.controllers()
    for found in slots(2, before):
        cluster = filled(start, found, waited=waited)
        # The failed revision needs a user. So it precedes problems that may pass, but no problem that needs a user too.
        expected = [
            facts_of(cluster, lambda serving: max(before, serving), rolled_back=True, cause=cause, lasting=bool(cause))
            for cause, _ in causes(found, 0) or [("", False)]
        ]
        assert [] in [wrong(cluster, facts) for facts in expected], (found, wrong(cluster, expected[0]))


@pytest.mark.parametrize("waited", [UNSCHEDULED_SECONDS, DEADLINE_SECONDS])
@pytest.mark.parametrize("asked", [WAIT, {"maxUnavailable": 0}, {"maxUnavailable": 1}])
@pytest.mark.parametrize("slot", HELD)
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_conditions_of_a_canary_without_room_equal_the_truth_table(
    wanted: int, slot: Slot, asked: dict[str, Any], waited: int
) -> None:
    start = upgrading(wanted, **asked, surgeTimeoutSeconds=DEADLINE_SECONDS + SURGE_SECONDS)
    soon = {Slot.GATED: "SchedulingGated", Slot.UNSCHEDULED: "Unschedulable"}[slot]
    given = (
        {"cause": soon, "lasting": False}
        if asked.get("maxUnavailable") == 1
        else {"cause": "UpgradeBlocked", "lasting": waited >= DEADLINE_SECONDS}
    )
    for lost, cluster in canary_states(start, slot, waited=waited):
        assert wrong(cluster, rollout_facts(cluster, **given)) == [], lost


@pytest.mark.parametrize("queue", [False, True], ids=["no card", "gated"])
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_conditions_of_a_rollout_in_place_equal_the_truth_table(wanted: int, queue: bool) -> None:
    cluster = served(replicas=wanted, rollout={"maxUnavailable": 1})
    cluster.cards, cluster.queue = wanted, queue
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.controllers()
    cluster.operate()
    cluster.now += timedelta(seconds=SURGE_SECONDS + 1)
    for _ in range(3):
        # In these three turns, the operator deletes an old pod, the old pod terminates, and the canary gets the free
        # card.
        cluster.operate()
        assert wrong(cluster, rollout_facts(cluster, in_place=True)) == []
        cluster.controllers()
    for slot in (Slot.PULLING, Slot.WARMING, Slot.SERVING, Slot.MISSING):
        for lost, found in canary_states(cluster, slot):
            assert wrong(found, rollout_facts(found, in_place=True)) == [], (slot, lost)


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_rollout_in_place_reports_no_lost_replica(wanted: int) -> None:
    cluster = served(replicas=wanted, rollout={"maxUnavailable": 1})
    cluster.cards = wanted
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.controllers()
    cluster.now += timedelta(seconds=SURGE_SECONDS)
    fewest = wanted
    while condition(cluster, "Ready") != ("True", "Serving"):
        cluster.operate()
        assert wrong(cluster, rollout_facts(cluster, in_place=True)) == []
        fewest = min(fewest, cluster.resource["status"]["readyReplicas"])
        cluster.controllers()
        for pod in cluster.kind("Pod"):
            cluster.warm(pod["metadata"]["name"])
        cluster.kubelet()
    assert fewest == wanted - 1
