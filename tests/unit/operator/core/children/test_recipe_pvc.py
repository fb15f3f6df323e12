"""The PVC of recipes: when it exists, what it asks for, and when it goes."""

from typing import Any

import pytest

from gaudi_operator.core.actions import Action, Apply, Delete
from gaudi_operator.core.children.desired import recipe_pvc_actions, recipe_readers
from gaudi_operator.core.rollout.inputs import are_same_inputs, revision_inputs
from gaudi_operator.core.rollout.revision import Revision, desired_revision
from tests.support.builders import Object
from tests.unit.operator.core.resources import DEFAULTS, inference

ON: dict[str, Any] = {"recipeCache": {"enabled": True, "size": "5Gi"}}


def revision(**overrides: Any) -> Revision:
    return desired_revision(inference(**overrides), (), DEFAULTS)


def live(storage: str = "5Gi", **overrides: Any) -> Object:
    """The PVC as the API server holds it."""
    (made,) = recipe_pvc_actions(inference(**{**ON, **overrides}), (), ())
    assert isinstance(made, Apply)
    claim: Object = {
        **made.manifest,
        "spec": {**made.manifest["spec"], "volumeName": "pv-1", "volumeMode": "Filesystem"},
    }
    claim["spec"]["resources"] = {"requests": {"storage": storage}}
    claim["metadata"] = {**claim["metadata"], "uid": "uid-of-claim"}
    return claim


def spec_of(actions: list[Action]) -> Object:
    (action,) = actions
    assert isinstance(action, Apply)
    return dict(action.manifest["spec"])


def test_a_resource_that_shares_no_recipes_has_no_claim() -> None:
    assert recipe_pvc_actions(inference(), [revision()], ()) == []


@pytest.mark.parametrize("template", [{}, {"spec": {}}], ids=["no spec", "no volumes"])
def test_a_revision_that_mounts_nothing_needs_no_claim(template: Object) -> None:
    assert recipe_pvc_actions(inference(), [Revision("r", 1, {}, template, "")], ()) == []


def test_the_claim_asks_for_what_the_spec_says() -> None:
    cache = {"enabled": True, "size": "5Gi", "storageClassName": "fast", "accessMode": "ReadWriteOnce"}
    assert spec_of(recipe_pvc_actions(inference(recipeCache=cache), (), ())) == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }


def test_without_a_class_the_default_of_the_cluster_is_taken() -> None:
    assert "storageClassName" not in spec_of(recipe_pvc_actions(inference(**ON), (), ()))


def test_the_claim_is_named_after_its_resource_and_goes_along() -> None:
    metadata = live()["metadata"]
    assert (metadata["name"], metadata["ownerReferences"][0]["uid"]) == ("tiny-recipes", "uid-of-tiny")


def test_a_claim_that_is_as_desired_is_let_be() -> None:
    assert recipe_pvc_actions(inference(**ON), [revision(**ON)], [live()]) == []


def test_a_larger_size_makes_the_claim_larger() -> None:
    larger = {"recipeCache": {"enabled": True, "size": "8Gi"}}
    found = spec_of(recipe_pvc_actions(inference(**larger), [revision(**ON)], [live()]))
    assert found["resources"] == {"requests": {"storage": "8Gi"}}


def test_a_claim_that_somebody_made_larger_keeps_its_size() -> None:
    actions = recipe_pvc_actions(inference(**ON), [revision(**ON)], [live("1Ti")])
    assert all(each["resources"]["requests"]["storage"] == "1Ti" for each in map(_spec, actions))


def test_the_same_size_in_another_unit_is_no_change() -> None:
    assert recipe_pvc_actions(inference(**ON), [revision(**ON)], [live("5120Mi")]) == []


def test_a_claim_stays_while_a_running_revision_mounts_it() -> None:
    assert recipe_pvc_actions(inference(), [revision(), revision(**ON)], [live()]) == []


def test_a_claim_that_a_running_revision_mounts_is_made_anew() -> None:
    (action,) = recipe_pvc_actions(inference(), [revision(**ON)], ())
    assert isinstance(action, Apply)


def test_a_claim_that_nothing_mounts_any_more_is_deleted() -> None:
    why = "spec.recipeCache is switched off and no pod mounts it"
    assert recipe_pvc_actions(inference(), [revision()], [live()]) == [
        Delete("v1", "PersistentVolumeClaim", "tiny-recipes", "uid-of-claim", why)
    ]


def test_a_claim_on_its_way_out_is_waited_for() -> None:
    going = live()
    going["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    assert recipe_pvc_actions(inference(**ON), [revision(**ON)], [going]) == []
    assert recipe_pvc_actions(inference(), [revision()], [going]) == []


def _spec(action: Action) -> Object:
    assert isinstance(action, Apply)
    return dict(action.manifest["spec"])


RETAINED: dict[str, Any] = {"recipeCache": {**ON["recipeCache"], "retentionPolicy": "Retain"}}
OWN: dict[str, Any] = {"recipeCache": {**ON["recipeCache"], "existingClaim": "team-recipes"}}


def test_a_claim_to_be_retained_has_no_owner() -> None:
    assert "ownerReferences" not in live(**RETAINED)["metadata"]


def test_retained_claim_stays_when_the_cache_is_switched_off() -> None:
    off = inference(recipeCache={"retentionPolicy": "Retain"})
    assert recipe_pvc_actions(off, [revision()], [live(**RETAINED)]) == []


def test_claim_of_a_former_namesake_is_never_deleted() -> None:
    assert recipe_pvc_actions(inference(), [revision()], [live(**RETAINED)]) == []


def test_owner_comes_and_goes_with_the_policy() -> None:
    (owned,) = recipe_pvc_actions(inference(**ON), [revision(**ON)], [live(**RETAINED)])
    (free,) = recipe_pvc_actions(inference(**RETAINED), [revision(**ON)], [live()])
    assert isinstance(owned, Apply)
    assert isinstance(free, Apply)
    assert ["ownerReferences" in each.manifest["metadata"] for each in (owned, free)] == [True, False]


def test_retention_makes_no_revision() -> None:
    assert are_same_inputs(revision(**ON).inputs, revision_inputs(inference(**RETAINED)))


def test_pods_mount_a_named_claim_and_none_is_made() -> None:
    volumes = {each["name"]: each for each in revision(**OWN).template["spec"]["volumes"]}
    assert volumes["recipes"]["persistentVolumeClaim"] == {"claimName": "team-recipes"}
    assert recipe_pvc_actions(inference(**OWN), [revision(**OWN)], ()) == []


def test_pods_with_a_named_claim_read_what_is_kept() -> None:
    (found,) = recipe_readers(inference(**OWN), [revision(**OWN)], [revision(**OWN)])
    assert found["metadata"]["name"] == "tiny-recipes"
