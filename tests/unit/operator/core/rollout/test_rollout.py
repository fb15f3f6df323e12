"""A rollout with unschedulable, refused or terminating pods, and when a revision counts as served."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, RevisionPhase, Revisions, RevisionStatus
from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.rollout_plan import plan_rollout
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.errors import Problem
from tests.support.builders import Object, copied
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import NOW, inference, resource
from tests.unit.operator.core.states import serving, state_of, warming
from tests.unit.operator.core.stories import condition as shown
from tests.unit.operator.core.stories import served

NEW, OLD = Revision("new", 2, {}, {}, ""), Revision("old", 1, {}, {}, "")
OLDS = [serving("o1", "old"), serving("o2", "old")]
PROVEN = serving("n1")
IN_PLACE = {"surgeTimeoutSeconds": 30}
WAIT = {"type": "Surge"}


def opened(name: str) -> PodView:
    """Return a pod whose gate is open, but which is not ready yet."""
    return view(pod(name, revision="new", conditions=(gate_condition(True), condition("Ready", False))))


def without_node() -> PodView:
    """Return a pod that has been unschedulable for 31 seconds."""
    since = stamp(NOW - timedelta(seconds=31))
    scheduled = condition("PodScheduled", False, "Unschedulable", "0/1 nodes are available", since)
    return view(pod("n2", revision="new", container=None, phase="Pending", conditions=(scheduled,)))


def ending() -> PodView:
    """Return a terminating old pod."""
    manifest = pod("o3", revision="old", terminating=True)
    manifest["metadata"]["deletionTimestamp"] = stamp(NOW + timedelta(seconds=30))
    return view(manifest)


def replica_set(name: str, replicas: int, **status: Any) -> Object:
    metadata = {"name": f"tiny-{name}", "uid": f"u-{name}", "labels": {REVISION_LABEL: name}}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


def rolled_out(
    pods: list[PodView], rollout: dict[str, Any] | None = None, new: Object | None = None, **fields: Any
) -> State:
    """Roll out two replicas of `new`. Each revision has one replica for each of its pods that is not terminating."""
    counts = {name: sum(each.is_active and each.revision == name for each in pods) for name in ("new", "old")}
    sets = (new or replica_set("new", counts["new"]), replica_set("old", counts["old"]))
    given = {
        "inference": inference(replicas=2, rollout=rollout or {}),
        "previous_status": GaudiInferenceStatus(revision=Revisions(stable="old")),
        "observed": Observed(resource(), replica_sets=sets, now=NOW),
        "stored": (NEW, OLD),
        **fields,
    }
    return plan_rollout(state_of(pods, **given), NEW)


def reason(state: State) -> str | None:
    return state.problem.reason if state.problem else None


@pytest.mark.parametrize(
    ("rollout", "pods", "blocked"),
    [
        (WAIT, [*OLDS, without_node()], True),
        (WAIT, [OLDS[0], PROVEN, without_node()], True),
        ({**WAIT, "maxUnavailable": 1}, [*OLDS, without_node()], True),
        ({**WAIT, "maxUnavailable": 1}, [OLDS[0], PROVEN, without_node()], False),
        ({"type": "InPlace"}, [OLDS[0], without_node()], False),
    ],
)
def test_upgrade_is_blocked_while_no_old_pod_may_be_removed(
    rollout: dict[str, Any], pods: list[PodView], blocked: bool
) -> None:
    assert reason(rolled_out(pods, rollout)) == ("UpgradeBlocked" if blocked else "Unschedulable")


def test_pods_are_replaced_in_place_without_room() -> None:
    found = rolled_out([*OLDS, without_node()], IN_PLACE)
    assert (found.rollout.in_place_reason is not None, reason(found)) == (True, None)


@pytest.mark.parametrize(
    ("pods", "rollout", "served"),
    [
        ([*OLDS, warming("n1")], {}, False),
        ([opened("n1")], {}, False),
        ([*OLDS, PROVEN], {}, True),
        ([*OLDS, PROVEN], {"canary": {"observeSeconds": 7200}}, False),
    ],
    ids=["no pod was ready", "gate is open, but the pod is not ready", "canary is ready", "canary is observed"],
)
def test_revision_is_marked_as_served_after_its_trial(
    pods: list[PodView], rollout: dict[str, Any], served: bool
) -> None:
    assert ("new" in rolled_out(pods, rollout).served_revisions) is served


def test_revision_stays_marked_as_served_without_pods() -> None:
    row = RevisionStatus(name="new", number=2, phase=RevisionPhase.KEPT, served=True)
    before = GaudiInferenceStatus(revision=Revisions(stable="old"), revisions=(row,))
    assert "new" in rolled_out(OLDS, previous_status=before).served_revisions


def test_terminating_pod_may_free_room() -> None:
    found = rolled_out([*OLDS, ending(), without_node()], IN_PLACE)
    assert (found.rollout.in_place_reason, reason(found)) == (None, None)


def test_refused_pods_are_a_problem() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": "denied by a rule"}
    found = rolled_out([PROVEN], new=replica_set("new", 2, conditions=[refused]))
    assert reason(found) == "PodsRefused"


@pytest.mark.parametrize(("pods", "is_reported"), [([PROVEN], True), ([PROVEN, warming("n2")], False)])
def test_forbidden_revision_is_a_problem_while_it_lacks_pods(pods: list[PodView], is_reported: bool) -> None:
    found = rolled_out(pods, forbidden={"new": Problem("HostPathNotAllowed", "No hostPath here.")})
    assert reason(found) == ("HostPathNotAllowed" if is_reported else None)


def test_unscheduled_pod_stalls_only_after_the_terminating_one_ended() -> None:
    cluster = served(replicas=1)
    ending, waiting = copied(cluster.kind("Pod")[0]), cluster.kind("Pod")[0]
    ending["metadata"] |= {"name": "ending", "uid": "uid-ending", "deletionTimestamp": "2026-08-01T12:00:00Z"}
    cluster.objects["Pod", "ending"] = ending
    since = {"lastTransitionTime": "2026-08-01T11:00:00Z", "message": "no cards"}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **since}
    waiting["status"] = {"phase": "Pending", "conditions": [scheduled]}
    cluster.operate()
    assert shown(cluster, "Stalled") == ("False", "NotStalled")
    del cluster.objects["Pod", "ending"]
    cluster.operate()
    assert shown(cluster, "Stalled") == ("True", "Unschedulable")
