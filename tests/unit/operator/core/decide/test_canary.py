"""The canary: it is alone until it serves, is observed if configured, and a failing one is rolled back."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.core.actions import Apply
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.revision_choice import has_chosen_revision_kept_gate_open, is_chosen_revision_on_trial
from gaudi_runtime.contract.report import ColdShape, Phase, RequestCountsReport
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.pod_objects import condition as pod_condition
from tests.unit.operator.core.pod_objects import gate_condition, view
from tests.unit.operator.core.pod_objects import pod as manifest_of
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import closed, serving, warming
from tests.unit.operator.core.stories import (
    BIGGER,
    condition,
    failing_upgrade,
    failure_of,
    revisions,
    served,
    status,
)


def upgrading(**rollout: Any) -> tuple[Cluster, str]:
    """Return a cluster with four serving replicas, a surge of two and a changed model, and the old revision's name."""
    cluster = served(replicas=4, rollout={"maxSurge": 2, **rollout})
    (old,) = revisions(cluster)
    cluster.change(model=BIGGER)
    return cluster, old


def turn(cluster: Cluster, warm: bool = True) -> tuple[int, int]:
    """Let the operator and all controllers act once. Return the numbers of (old, new) pods."""
    cluster.operate()
    cluster.controllers()
    pods = [pod for pod in cluster.kind("Pod") if "deletionTimestamp" not in pod["metadata"]]
    for pod in pods if warm else ():
        cluster.warm(pod["metadata"]["name"])
    cluster.kubelet()
    updated = status(cluster)["updatedReplicas"]
    return status(cluster)["replicas"] - updated, updated


def message(cluster: Cluster) -> str:
    (found,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == "Ready"]
    return str(found)


def test_only_one_new_pod_exists_until_its_gate_opens() -> None:
    cluster, _ = upgrading()
    assert {turn(cluster, warm=False) for _ in range(10)} == {(4, 0), (4, 1)}
    assert (
        "the first pod is the canary, and pods of older revisions serve until the gate of the canary opens. "
        "4 old pods are left."
    ) in message(cluster)


def test_other_pods_follow_with_the_surge() -> None:
    cluster, old = upgrading()
    seen = [turn(cluster) for _ in range(20)]
    assert max(new for _, new in seen) == 4
    assert max(sum(each) for each in seen) == 6
    assert old not in revisions(cluster)


def test_old_pods_are_removed_before_their_successors_are_added() -> None:
    cluster, old = upgrading()
    for _ in range(4):
        turn(cluster)
    scaled = [action.manifest for action in cluster.operate().actions if isinstance(action, Apply)]
    sets = [(each["metadata"]["name"], each["spec"]["replicas"]) for each in scaled if each["kind"] == "ReplicaSet"]
    assert [(f"tiny-{old}" == name, replicas) for name, replicas in sets] == [(True, 1), (False, 4)]


def test_observed_canary_stays_ready_and_replaces_no_old_pod() -> None:
    cluster, _ = upgrading(canary={"observeSeconds": 30})
    assert {turn(cluster) for _ in range(25)} == {(4, 0), (4, 1)}
    assert "has been open for 30 s" in message(cluster)
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_operator_requeues_at_the_end_of_the_observation() -> None:
    cluster, _ = upgrading(canary={"observeSeconds": 30})
    for _ in range(5):
        turn(cluster)
    seconds = cluster.operate().requeue_after
    assert seconds is not None
    assert 20 < seconds < 30


def test_observation_starts_again_after_another_warm_up() -> None:
    cluster, old = upgrading(canary={"observeSeconds": 30})
    for _ in range(25):
        turn(cluster)
    (canary,) = [name for kind, name in cluster.objects if kind == "Pod" and not name.startswith(f"tiny-{old}")]
    cluster.restart(canary)
    assert {turn(cluster) for _ in range(25)} == {(4, 1)}


def test_observation_from_the_future_starts_now() -> None:
    cluster, old = upgrading(canary={"observeSeconds": 30})
    for _ in range(5):
        turn(cluster)
    cluster.now -= timedelta(days=1)
    for _ in range(30):
        turn(cluster)
    assert cluster.objects["ReplicaSet", f"tiny-{old}"]["spec"]["replicas"] == 4
    turn(cluster)
    turn(cluster)
    assert cluster.objects["ReplicaSet", f"tiny-{old}"]["spec"]["replicas"] < 4


def test_rollback_to_a_stable_revision_has_no_canary() -> None:
    cluster, _ = upgrading()
    for _ in range(6):
        turn(cluster)
    assert status(cluster)["updatedReplicas"] > 1
    cluster.change(model={"maxModelLen": 256})
    cluster.operate()
    assert "canary" not in message(cluster)


OLD = serving("o", "old")


def test_recompiles_of_an_observed_revision_cause_a_rollback() -> None:
    cold = (ColdShape(phase="prompt", shape=(1, 300, 0), count=9),)
    met = {"phase": Phase.SERVING, "recompiles_since_ready": 11, "cold_shapes": cold}
    cluster, _, bad = failing_upgrade(met, canary={"observeSeconds": 60})
    found = failure_of(cluster, bad)
    assert found is not None
    assert found["reason"] == "TooManyRecompiles"
    assert "11 compiles in pod" in found["message"]
    assert "most often prompt (1, 300, 0)" in found["message"]


def test_failing_requests_of_an_observed_revision_cause_a_rollback() -> None:
    met = {"phase": Phase.SERVING, "requests": RequestCountsReport(answered=40, failed=7)}
    cluster, _, bad = failing_upgrade(met, canary={"observeSeconds": 60})
    found = failure_of(cluster, bad)
    assert found is not None
    assert found["reason"] == "TooManyErrors"
    assert "7 of 40 answers of pod" in found["message"]


@pytest.mark.parametrize("rollout", [{}, {"canary": {"observeSeconds": 60, "maxRecompiles": 11}}])
def test_recompiles_within_the_limit_or_unobserved_cause_no_rollback(rollout: dict[str, Any]) -> None:
    cluster, _, bad = failing_upgrade({"phase": Phase.SERVING, "recompiles_since_ready": 11}, **rollout)
    assert failure_of(cluster, bad) is None


def held(seconds: int) -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    conditions = (gate_condition(True, since=since), pod_condition("Ready", True))
    return view(manifest_of("n", revision="new", conditions=conditions))


@pytest.mark.parametrize(
    ("pods", "observe", "trial"),
    [
        ([OLD], 0, True),
        ([OLD, warming()], 0, True),
        ([OLD, closed()], 0, True),
        ([OLD, held(0)], 0, False),
        ([OLD, held(0)], 1, True),
        ([OLD, held(59)], 60, True),
        ([OLD, held(60)], 60, False),
        ([OLD, held(60), warming()], 60, False),
        ([warming("o", "old")], 0, False),
        ([], 0, False),
    ],
)
def test_trial_ends_after_a_pod_was_ready_for_observe_seconds(pods: list[PodView], observe: int, trial: bool) -> None:
    assert is_chosen_revision_on_trial("new", "old", pods, observe, Deadlines(NOW)) is trial


def test_previously_rolled_out_revision_is_not_on_trial() -> None:
    assert not is_chosen_revision_on_trial("new", "new", [OLD], 60, Deadlines(NOW))


def test_closed_gate_restarts_the_trial() -> None:
    assert not has_chosen_revision_kept_gate_open(closed(), 5, Deadlines(NOW))
    assert not has_chosen_revision_kept_gate_open(held(4), 5, Deadlines(NOW))
    assert has_chosen_revision_kept_gate_open(held(5), 5, Deadlines(NOW))
