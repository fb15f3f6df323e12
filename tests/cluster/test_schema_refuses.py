"""The API server refuses every bad object with the sentence that helps, and guards what must not change."""

import json
from typing import Any

import pytest

from localcluster import ControlPlane, LocalClusterError
from tests.builders import Object, gaudi_inference
from tests.cluster.bad_object import CARD, VLLM, Bad
from tests.cluster.bad_objects import BAD_OBJECTS
from tests.cluster.conftest import Kubectl


def apply(kubectl: Kubectl, manifest: Object) -> None:
    """`kubectl apply`, as users type it."""
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def refusal(kubectl: Kubectl, manifest: Object) -> str:
    """What the API server says against `manifest`; fails when it accepts it."""
    with pytest.raises(LocalClusterError) as refused:
        apply(kubectl, manifest)
    return str(refused.value)


@pytest.mark.parametrize("bad", BAD_OBJECTS, ids=lambda bad: bad.case)
def test_bad_object_is_refused_with_its_sentence(control_plane: ControlPlane, crd: str, bad: Bad) -> None:
    assert bad.sentence in refusal(control_plane.kubectl, bad.manifest())


def test_builder_object_is_accepted(kubectl: Kubectl) -> None:
    apply(kubectl, gaudi_inference("good"))


def test_nodes_from_one_to_several_is_refused(kubectl: Kubectl) -> None:
    one = gaudi_inference("moving", accelerator=CARD, engine=VLLM, parallelism={"tensor": 8})
    several = gaudi_inference("moving", accelerator=CARD, engine=VLLM, parallelism={"tensor": 8, "nodes": 2})
    apply(kubectl, one)
    assert "spec.parallelism.nodes cannot change between one node and several" in refusal(kubectl, several)


def test_nodes_from_two_to_four_is_accepted(kubectl: Kubectl) -> None:
    for nodes in (2, 4):
        desired = gaudi_inference("moving", accelerator=CARD, engine=VLLM, parallelism={"tensor": 8, "nodes": nodes})
        apply(kubectl, desired)


@pytest.mark.parametrize(("before", "after"), [(None, "fast"), ("fast", None), ("fast", "slow")])
def test_changed_storage_class_is_refused(kubectl: Kubectl, before: str | None, after: str | None) -> None:
    classes = [{} if name is None else {"storageClassName": name} for name in (before, after)]
    first, second = (gaudi_inference("cached", recipeCache={"enabled": True, **each}) for each in classes)
    apply(kubectl, first)
    assert "spec.recipeCache.storageClassName cannot be changed" in refusal(kubectl, second)


@pytest.mark.parametrize("before", [{}, {"storageClassName": "slow"}])
def test_cache_that_is_switched_on_takes_any_storage_class(kubectl: Kubectl, before: dict[str, Any]) -> None:
    apply(kubectl, gaudi_inference("cached", recipeCache=before))
    apply(kubectl, gaudi_inference("cached", recipeCache={"enabled": True, "storageClassName": "fast"}))


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({}, {"accessMode": "ReadWriteOnce"}, "spec.recipeCache.accessMode cannot be changed"),
        ({"size": "2Gi"}, {"size": "2000Mi"}, "spec.recipeCache.size cannot be lowered"),
        ({"size": 2000}, {"size": 1999}, "spec.recipeCache.size cannot be lowered"),
    ],
)
def test_claim_of_recipes_cannot_become_another(
    kubectl: Kubectl, before: dict[str, Any], after: dict[str, Any], sentence: str
) -> None:
    first, second = (gaudi_inference("cached", recipeCache={"enabled": True, **each}) for each in (before, after))
    apply(kubectl, first)
    assert sentence in refusal(kubectl, second)


def test_claim_of_recipes_may_grow(kubectl: Kubectl) -> None:
    for size in ("2Gi", "2048Mi", "3Gi"):
        apply(kubectl, gaudi_inference("cached", recipeCache={"enabled": True, "size": size}))
