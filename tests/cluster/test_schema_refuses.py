"""Changes of immutable fields and of published models. The API server must refuse both with a helpful message."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from localcluster import LocalClusterError
from tests.cluster.bad_object import CARD, VLLM
from tests.cluster.bad_objects import BAD_OBJECTS
from tests.cluster.conftest import Kubectl
from tests.cluster.objects import Objects, Refused
from tests.support.builders import Object, gaudi_inference, merged

Apply = Callable[[Object], Object]


@pytest.fixture
def apply(objects: Objects, namespace: str) -> Apply:
    """Create or replace an object."""
    return lambda manifest: objects.put(manifest, namespace)


def refusal(apply: Apply, manifest: Object) -> str:
    """Return the API server's message for `manifest`. Fail if the API server accepts the object."""
    with pytest.raises(Refused) as refused:
        apply(manifest)
    return str(refused.value)


def test_kubectl_shows_the_message_of_a_refusal(kubectl: Kubectl) -> None:
    bad = BAD_OBJECTS[0]
    with pytest.raises(LocalClusterError) as refused:
        kubectl("apply", "-f", "-", stdin=json.dumps(bad.manifest()))
    assert bad.message in str(refused.value)


def test_unchanged_object_of_the_test_builder_is_accepted(apply: Apply) -> None:
    apply(gaudi_inference("good"))


def test_change_from_one_node_to_several_is_refused(apply: Apply) -> None:
    one = gaudi_inference("moving", accelerator=CARD, engine=VLLM, parallelism={"tensor": 8})
    several = gaudi_inference("moving", accelerator=CARD, engine=VLLM, parallelism={"tensor": 8, "nodes": 2})
    apply(one)
    assert "spec.parallelism.nodes cannot change" in refusal(apply, several)


def test_change_from_two_nodes_to_four_is_accepted(apply: Apply) -> None:
    for nodes in (2, 4):
        desired = gaudi_inference("moving", accelerator=CARD, engine=VLLM, parallelism={"tensor": 8, "nodes": nodes})
        apply(desired)


@pytest.mark.parametrize(("before", "after"), [(None, "fast"), ("fast", None), ("fast", "slow")])
def test_changed_storage_class_is_refused(apply: Apply, before: str | None, after: str | None) -> None:
    classes = [{} if name is None else {"storageClassName": name} for name in (before, after)]
    first, second = (gaudi_inference("cached", recipeCache=each) for each in classes)
    apply(first)
    assert "spec.recipeCache.storageClassName cannot be changed" in refusal(apply, second)


def test_newly_enabled_cache_accepts_any_storage_class(apply: Apply) -> None:
    for before in ({}, {"recipeCache": {"storageClassName": "slow"}}, {}):
        apply(gaudi_inference("cached", **before))
    apply(gaudi_inference("cached", recipeCache={"storageClassName": "fast"}))


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({}, {"accessMode": "ReadWriteOnce"}, "spec.recipeCache.accessMode cannot be changed"),
        ({"size": "2Gi"}, {"size": "2000Mi"}, "spec.recipeCache.size cannot be lowered"),
        ({"size": 2000}, {"size": 1999}, "spec.recipeCache.size cannot be lowered"),
    ],
)
def test_immutable_fields_of_the_recipe_cache_cannot_change(
    apply: Apply, before: dict[str, Any], after: dict[str, Any], sentence: str
) -> None:
    first, second = (gaudi_inference("cached", recipeCache=each) for each in (before, after))
    apply(first)
    assert sentence in refusal(apply, second)


def test_size_of_the_recipe_cache_may_grow(apply: Apply) -> None:
    for size in ("2Gi", "2048Mi", "3Gi"):
        apply(gaudi_inference("cached", recipeCache={"size": size}))


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_published_model_without_a_key_is_refused(apply: Apply, kind: str) -> None:
    apply(gaudi_inference("published"))
    published = gaudi_inference("published", service={"type": kind})
    assert "spec.service.type other than ClusterIP publishes the model" in refusal(apply, published)
    assert "spec.service.type" in refusal(apply, merged(published, {"metadata": {"name": "new"}}))
    no_policy = gaudi_inference("published", service={"type": kind}, networkAccess={"from": "Unmanaged"})
    assert "spec.service.type" in refusal(apply, no_policy)


@pytest.mark.parametrize(
    "guard",
    [
        {"service": {"type": "NodePort"}, "networkAccess": {"from": "Clients", "clients": []}},
        {
            "service": {"type": "NodePort"},
            "networkAccess": {"from": "Everyone"},
            "server": {"apiKeySecretRef": {"name": "a", "key": "b"}},
        },
    ],
)
def test_published_model_with_access_control_is_accepted(apply: Apply, guard: dict[str, Any]) -> None:
    apply(gaudi_inference("published", **guard))


@contextmanager
def without_the_rule(kubectl: Kubectl, crd: str) -> Iterator[None]:
    """Disable the rule with `optionalOldSelf` for the block, as in releases without this rule.

    Restore the rule at the end.
    """
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"
    spec = json.loads(kubectl("get", "crd", crd, "-o", "json"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rules = spec["properties"]["spec"]["x-kubernetes-validations"]
    (at,) = (number for number, rule in enumerate(rules) if rule.get("optionalOldSelf"))

    def set_rule(rule: str) -> None:
        patch = [{"op": "replace", "path": f"{path}/{at}/rule", "value": rule}]
        kubectl("patch", "crd", crd, "--type=json", f"--patch={json.dumps(patch)}")

    set_rule("true || oldSelf.hasValue()")
    try:
        yield
    finally:
        set_rule(rules[at]["rule"])


def wait_until(ask: Callable[[], object], refused: bool) -> None:
    """Call `ask` until the API server refuses or accepts, as expected.

    A changed definition takes effect after a moment.
    """
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            ask()
        except Refused:
            if refused:
                return
        else:
            if not refused:
                return
    raise AssertionError("the changed definition has no effect")


def test_object_published_before_the_rule_stays_editable(
    apply: Apply, objects: Objects, kubectl: Kubectl, crd: str
) -> None:
    node_port = {"service": {"type": "NodePort"}, "networkAccess": {"from": "Everyone"}}
    published = gaudi_inference("published", **node_port)
    with without_the_rule(kubectl, crd):
        wait_until(lambda: apply(published), refused=False)
    numbers = itertools.count()
    # Use a new name for each attempt. If an attempt succeeds before the rule takes effect, the API server would accept
    # the same object also later.
    wait_until(lambda: objects.put(gaudi_inference(f"other-{next(numbers)}", **node_port)), refused=True)
    apply(merged(published, {"spec": {"engine": {"maxNumSeqs": 3}}}))
    apply(merged(published, {"spec": {"service": {"type": "ClusterIP"}}}))
    assert "publishes the model" in refusal(apply, published)
