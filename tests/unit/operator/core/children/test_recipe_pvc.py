"""The PVC of recipes: when it is created, its spec, and when it is deleted."""

from typing import Any

import pytest

from gaudi_operator.core.actions import Action, Apply, Delete
from gaudi_operator.core.children.child_actions import recipe_config_map_children, recipe_pvc_actions
from gaudi_operator.core.rollout.revision import Revision, are_same_revision_inputs, revision_inputs
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from tests.support.builders import Object
from tests.unit.operator.core.resources import DEFAULTS, inference

ON: dict[str, Any] = {"recipeCache": {"size": "5Gi"}}


def revision(**overrides: Any) -> Revision:
    return choose_desired_revision(inference(**overrides), (), DEFAULTS)


def live(storage: str = "5Gi", **overrides: Any) -> Object:
    """Return the PVC as the API server stores it."""
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


def test_resource_without_shared_recipes_has_no_pvc() -> None:
    assert recipe_pvc_actions(inference(), [revision()], ()) == []


@pytest.mark.parametrize("template", [{}, {"spec": {}}], ids=["no spec", "no volumes"])
def test_revision_without_a_mount_needs_no_pvc(template: Object) -> None:
    assert recipe_pvc_actions(inference(), [Revision("r", 1, {}, template, "")], ()) == []


def test_pvc_has_size_and_class_of_the_spec() -> None:
    cache = {"size": "5Gi", "storageClassName": "fast", "accessMode": "ReadWriteOnce"}
    assert spec_of(recipe_pvc_actions(inference(recipeCache=cache), (), ())) == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }


def test_pvc_without_a_class_uses_the_clusters_default() -> None:
    assert "storageClassName" not in spec_of(recipe_pvc_actions(inference(**ON), (), ()))


def test_pvc_is_named_after_its_resource_and_owned_by_it() -> None:
    metadata = live()["metadata"]
    assert (metadata["name"], metadata["ownerReferences"][0]["uid"]) == ("tiny-recipes", "uid-of-tiny")


def test_unchanged_pvc_is_not_written() -> None:
    assert recipe_pvc_actions(inference(**ON), [revision(**ON)], [live()]) == []


def test_larger_size_enlarges_the_pvc() -> None:
    larger = {"recipeCache": {"size": "8Gi"}}
    found = spec_of(recipe_pvc_actions(inference(**larger), [revision(**ON)], [live()]))
    assert found["resources"] == {"requests": {"storage": "8Gi"}}


def test_manually_enlarged_pvc_keeps_its_size() -> None:
    actions = recipe_pvc_actions(inference(**ON), [revision(**ON)], [live("1Ti")])
    assert all(each["resources"]["requests"]["storage"] == "1Ti" for each in map(_spec, actions))


def test_same_size_in_another_unit_is_not_a_change() -> None:
    assert recipe_pvc_actions(inference(**ON), [revision(**ON)], [live("5120Mi")]) == []


def test_pvc_is_kept_while_a_running_revision_mounts_it() -> None:
    assert recipe_pvc_actions(inference(), [revision(), revision(**ON)], [live()]) == []


def test_deleted_pvc_is_created_again_for_a_running_revision() -> None:
    (action,) = recipe_pvc_actions(inference(), [revision(**ON)], ())
    assert isinstance(action, Apply)


def test_unmounted_pvc_is_deleted() -> None:
    why = "spec.recipeCache is switched off and no pod mounts it"
    assert recipe_pvc_actions(inference(), [revision()], [live()]) == [
        Delete("v1", "PersistentVolumeClaim", "tiny-recipes", "uid-of-claim", why)
    ]


def test_terminating_pvc_is_not_replaced_yet() -> None:
    going = live()
    going["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    assert recipe_pvc_actions(inference(**ON), [revision(**ON)], [going]) == []
    assert recipe_pvc_actions(inference(), [revision()], [going]) == []


def _spec(action: Action) -> Object:
    assert isinstance(action, Apply)
    return dict(action.manifest["spec"])


RETAINED: dict[str, Any] = {"recipeCache": {**ON["recipeCache"], "retentionPolicy": "Retain"}}
OWN: dict[str, Any] = {"recipeCache": {**ON["recipeCache"], "existingClaim": "team-recipes"}}


def test_retained_pvc_has_no_owner() -> None:
    assert "ownerReferences" not in live(**RETAINED)["metadata"]


def test_retained_pvc_is_kept_when_the_cache_is_disabled() -> None:
    """The PVC has no owner, as a PVC of a former resource."""
    assert recipe_pvc_actions(inference(), [revision()], [live(**RETAINED)]) == []


def test_retained_pvc_is_kept_when_another_one_is_named() -> None:
    named = inference(recipeCache={**OWN["recipeCache"], "retentionPolicy": "Retain"})
    assert recipe_pvc_actions(named, [revision(**OWN)], [live()]) == []


def test_owner_reference_follows_the_retention_policy() -> None:
    (owned,) = recipe_pvc_actions(inference(**ON), [revision(**ON)], [live(**RETAINED)])
    (free,) = recipe_pvc_actions(inference(**RETAINED), [revision(**ON)], [live()])
    assert isinstance(owned, Apply)
    assert isinstance(free, Apply)
    assert ["ownerReferences" in each.manifest["metadata"] for each in (owned, free)] == [True, False]


def test_retention_creates_no_revision() -> None:
    assert are_same_revision_inputs(revision(**ON).inputs, revision_inputs(inference(**RETAINED)))


def test_named_pvc_is_mounted_and_not_created() -> None:
    volumes = {each["name"]: each for each in revision(**OWN).template["spec"]["volumes"]}
    assert volumes["recipes"]["persistentVolumeClaim"] == {"claimName": "team-recipes"}
    assert recipe_pvc_actions(inference(**OWN), [revision(**OWN)], ()) == []


def test_pods_with_a_named_pvc_read_the_kept_revisions() -> None:
    (found,) = recipe_config_map_children(inference(**OWN), [revision(**OWN)], [revision(**OWN)])
    assert found["metadata"]["name"] == "tiny-recipes"
