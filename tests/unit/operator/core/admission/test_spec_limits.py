"""Class limits of the Service, clients, PVC and surge, with the exact messages."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits, GaudiInferenceClassSpec
from gaudi_operator.core.admission.spec_limits import (
    LimitViolation,
    clamp_to_limits,
    first_limit_violation,
    spec_limit_violations,
)
from gaudi_operator.core.classes import NO_CLASS, ResolvedClass
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.resources import inference

RANGE: Object = {"from": "Clients", "clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
SPEC: Object = {
    "service": {"type": "LoadBalancer", "annotations": {"team/a": "b", "dns/name": "shop"}},
    "networkAccess": RANGE,
    "recipeCache": {"size": "20Gi"},
}
PREFIXES = "is not an allowed value (limits.serviceAnnotationPrefixes: {})"
OPENS = "lets every namespace reach the model port (limits.allowAllClients)"


def read(limits: Object) -> ClassLimits:
    return ClassLimits.model_validate(limits)


@pytest.mark.parametrize(
    ("limits", "spec", "found"),
    [
        ({}, {}, []),
        (
            {"serviceTypes": ["ClusterIP", "NodePort"]},
            {},
            [
                LimitViolation(
                    "spec.service.type LoadBalancer",
                    "is not an allowed value (limits.serviceTypes: ClusterIP, NodePort)",
                    "Service",
                )
            ],
        ),
        (
            {"serviceAnnotationPrefixes": ["team/", "shop/"]},
            {"service": {"annotations": {"team/a": "b", "my-team/a": "b"}}},
            [LimitViolation("spec.service.annotations my-team/a", PREFIXES.format("team/, shop/"), "Service")],
        ),
        (
            {"serviceAnnotationPrefixes": []},
            {"service": {"annotations": {"a": "b"}}},
            [LimitViolation("spec.service.annotations a", PREFIXES.format("none"), "Service")],
        ),
        (
            {"maxRecipeCacheSize": "19Gi"},
            {},
            [
                LimitViolation(
                    "spec.recipeCache.size 20Gi",
                    "is above 19Gi (limits.maxRecipeCacheSize)",
                    "PersistentVolumeClaim",
                )
            ],
        ),
        (
            {},
            {"networkAccess": {"from": "Everyone", "clients": None}},
            [LimitViolation("spec.networkAccess.from Everyone", OPENS, "NetworkPolicy")],
        ),
        (
            {},
            {"networkAccess": {"from": "Clients", "clients": [{"ipBlock": {"cidr": "10.0.0.0/7"}}]}},
            [LimitViolation("spec.networkAccess.clients", OPENS, "NetworkPolicy")],
        ),
        (
            {},
            {"networkAccess": {"clients": [{"ipBlock": {"cidr": "any"}}]}},
            [LimitViolation("spec.networkAccess.clients", OPENS, "NetworkPolicy")],
        ),
        (
            {},
            {"networkAccess": {"clients": [{"namespaceSelector": "all"}]}},
            [LimitViolation("spec.networkAccess.clients", OPENS, "NetworkPolicy")],
        ),
        ({}, {"networkAccess": {"clients": [{"podSelector": "all"}, {"ipBlock": "10.0.0.0/8"}]}}, []),
        (
            {"maxSurge": 2},
            {"rollout": {"maxSurge": 3}},
            [LimitViolation("spec.rollout.maxSurge 3", "is above 2 (limits.maxSurge)", None)],
        ),
    ],
    ids=[
        "nothing",
        "types",
        "annotations",
        "no annotation",
        "PVC",
        "clients",
        "addresses",
        "no addresses",
        "no selector",
        "other types",
        "surge",
    ],
)
def test_each_field_beyond_a_limit_names_its_child(limits: Object, spec: Object, found: list[LimitViolation]) -> None:
    asked = inference(**{**SPEC, **spec}).spec
    assert list(spec_limit_violations(asked, read(limits))) == found


@pytest.mark.parametrize(
    ("limits", "spec", "kind", "changed"),
    [
        ({"serviceTypes": []}, {}, "Service", {"service": {"type": "ClusterIP"}}),
        (
            {"serviceAnnotationPrefixes": ["team/"]},
            {},
            "Service",
            {"service": {"type": "ClusterIP", "annotations": {"team/a": "b"}}},
        ),
        (
            {"maxRecipeCacheSize": "19Gi"},
            {},
            "PersistentVolumeClaim",
            {"recipeCache": {"size": "19Gi"}},
        ),
        ({}, {"networkAccess": {"from": "Unmanaged"}}, "NetworkPolicy", {"networkAccess": {}}),
    ],
    ids=["types", "annotations", "PVC", "clients"],
)
def test_only_the_child_beyond_a_limit_is_changed(limits: Object, spec: Object, kind: str, changed: Object) -> None:
    asked = {**SPEC, **spec}
    found, kinds = clamp_to_limits(inference(**asked), read(limits))
    assert kinds == {kind}
    service = {**asked["service"], **changed.pop("service", {})}
    assert found.spec == inference(**{**asked, "service": service, **changed}).spec


def test_spec_within_all_limits_is_unchanged() -> None:
    asked = inference(**SPEC)
    assert clamp_to_limits(asked, read({"maxSurge": 1, "serviceTypes": ["LoadBalancer"]})) == (asked, frozenset())


def refused(platform: ResolvedClass, **spec: Any) -> Problem | None:
    return first_limit_violation(inference(**spec).spec, platform)


def test_message_names_the_class_that_forbids_a_field() -> None:
    gold = ResolvedClass("gold", GaudiInferenceClassSpec(limits=read({"serviceTypes": []})))
    assert refused(gold, **SPEC) == Problem(
        "ForbiddenByClass",
        "spec.service.type LoadBalancer is not an allowed value (limits.serviceTypes: none), a limit of class gold. "
        "Change the field, or use another class.",
    )


def test_spec_without_a_class_is_refused_only_for_permissions() -> None:
    assert refused(NO_CLASS, **SPEC) is None
    assert refused(NO_CLASS, networkAccess={"from": "Unmanaged"}) == Problem(
        "NeedsClass", f"spec.networkAccess.from Unmanaged {OPENS}. Remove the setting, or use a class that allows it."
    )
