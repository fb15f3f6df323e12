"""A pod that waits for its volumes: the PVC, the field of the spec that names the PVC, and the deadline."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.spec_fields import claim_fields
from gaudi_operator.core.rendering.pod_volumes import pod_volumes
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.resources import DEFAULTS, NOW, inference, resource
from tests.unit.operator.core.states import problem_of, state_of, unschedulable

ROOM = RoomCriterion(to_come=False)
MODELS = "spec.model.source.persistentVolumeClaim.claimName"
DATA = "spec.pod.volumes[data].persistentVolumeClaim.claimName"


def mounting(*claims: tuple[str, str], bound: tuple[str, ...] = ()) -> State:
    """Return the state of a revision that mounts (volume, PVC) pairs. `bound` names bound PVCs of the operator."""
    found = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims]
    known = tuple(_bound(each) for each in bound)
    state = state_of(stored=(Revision("r1", 1, {}, {"spec": {"volumes": found}}, ""),))
    return replace(state, observed=Observed(resource(), pvcs=known, now=NOW))


def _bound(claim: str) -> Object:
    return {"metadata": {"name": claim}, "spec": {"volumeName": "pv-1"}}


def message(said: str, state: State) -> str:
    found = problem_of(unschedulable(31, f"0/1 nodes are available: {said}"), state, ROOM)
    assert found is not None
    assert found.reason == "VolumeNotBound"
    return found.message


def test_missing_claim_is_named_with_its_field() -> None:
    said = 'persistentvolumeclaim "models" not found'
    assert message(said, mounting(("model", "models"), ("data", "other"))) == (
        f"Pod a waits for PersistentVolumeClaim models ({MODELS}): 0/1 nodes are available: {said}. Create the claim "
        "in this namespace, or correct the field."
    )


@pytest.mark.parametrize(
    "said",
    [
        "pod has unbound immediate PersistentVolumeClaims",
        "1 node(s) had volume node affinity conflict",
        "1 node(s) didn't match PersistentVolume's node affinity",
        "1 node(s) didn't find available persistent volumes to bind",
    ],
)
def test_single_claim_is_named_with_field_and_command(said: str) -> None:
    assert message(said, mounting(("model", "models"))) == (
        f"Pod a waits for PersistentVolumeClaim models ({MODELS}): 0/1 nodes are available: {said}. Check that it "
        "exists in this namespace, that its storage class can provide the volume, and that the volume is reachable "
        "from a node with cards. `kubectl describe pvc models` shows the events."
    )


def test_several_claims_are_listed_with_their_fields() -> None:
    found = message("pod has unbound immediate PersistentVolumeClaims", mounting(("model", "models"), ("data", "d")))
    assert found.startswith(f"Pod a waits for one of the PersistentVolumeClaims models ({MODELS}) and d ({DATA}): ")
    assert "`kubectl describe pvc models d`" in found


def test_bound_claim_is_not_named() -> None:
    state = mounting(("model", "models"), ("recipes", "tiny-recipes"), bound=("tiny-recipes",))
    found = message("pod has unbound immediate PersistentVolumeClaims", state)
    assert found.startswith(f"Pod a waits for PersistentVolumeClaim models ({MODELS}): ")


def test_lack_of_cards_on_other_nodes_is_reported_too() -> None:
    said = "1 node(s) had volume node affinity conflict, 2 Insufficient habana.ai/gaudi"
    found = message(said, mounting(("model", "models")))
    assert found.endswith(" For the other nodes: free or add cards and memory, or lower spec.replicas.")


def test_message_for_an_unknown_revision_names_no_claim() -> None:
    found = message('persistentvolumeclaim "models" not found', state_of())
    assert found.startswith("Pod a waits for a volume: ")
    assert found.endswith("Check the volumes of `kubectl describe pod a`.")


@pytest.mark.parametrize(
    ("spec", "claim", "field"),
    [
        ({}, "models", MODELS),
        (
            {
                "model": {
                    "source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}},
                    "cache": {"existingClaim": "hub"},
                }
            },
            "hub",
            "spec.model.cache.existingClaim",
        ),
        (
            {
                "model": {
                    "lora": {"adapters": [{"name": "x", "source": {"persistentVolumeClaim": {"claimName": "lora"}}}]}
                }
            },
            "lora",
            "spec.model.lora.adapters[0].source.persistentVolumeClaim.claimName",
        ),
        ({"recipeCache": {}}, "tiny-recipes", "spec.recipeCache"),
        (
            {"recipeCache": {"existingClaim": "shared"}},
            "shared",
            "spec.recipeCache.existingClaim",
        ),
        ({"pod": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]}}, "d", DATA),
    ],
)
def test_each_rendered_claim_is_mapped_to_its_field(spec: Object, claim: str, field: str) -> None:
    asked = inference(**spec)
    assert (
        claim_fields({"spec": {"volumes": pod_volumes(asked, "config", DEFAULTS)}}, asked.identity.name)[claim] == field
    )


def unprepared(seconds: int) -> PodView:
    """Return a scheduled pod that has had no sandbox for `seconds`."""
    since = stamp(NOW - timedelta(seconds=seconds))
    prepared = condition("PodReadyToStartContainers", False, since=since)
    return view(pod(container=None, phase="Pending", conditions=(condition("PodScheduled", True), prepared)))


def test_pod_waiting_long_for_volumes_has_a_problem() -> None:
    assert problem_of(unprepared(181), state_of(), ROOM) == Problem(
        "PodNotPrepared",
        "Pod a has a node, but has waited for its volumes or its network for more than 180 s. The events of `kubectl "
        "describe pod a` name the missing volume or network.",
        since=NOW - timedelta(seconds=181),
    )


def test_message_of_a_pod_waiting_for_volumes_names_its_claims() -> None:
    volumes = [{"name": "model", "persistentVolumeClaim": {"claimName": "models"}}]
    revision = Revision("r1", 1, {}, {"spec": {"volumes": volumes}}, "")
    found = problem_of(unprepared(181), state_of(stored=(revision,)), ROOM)
    assert found is not None
    assert found.message.endswith(
        "The pod mounts PersistentVolumeClaim models (spec.model.source.persistentVolumeClaim.claimName). A "
        "ReadWriteOnce PVC serves only the pods of one node. Use ReadWriteMany, or select one node with "
        "spec.pod.nodeSelector."
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
