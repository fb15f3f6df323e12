"""The roles, bindings and service account that the chart installs: the documented permissions, and no others."""

from itertools import chain, product
from typing import Any

import pytest

from tests.support.permissions import rules
from tests.unit.chart.rendering import Object, environment_of, of_kind, pod_of, render

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm


def single(policy: list[Object]) -> set[tuple[Any, ...]]:
    """Return every (group, resource, verb) that the policy rules grant."""
    return {each for rule in policy for each in product(rule["apiGroups"], rule["resources"], rule["verbs"])}


def role(objects: list[Object], kind: str, name: str) -> list[Object]:
    """Return the policy rules of a role."""
    (found,) = (each for each in of_kind(objects, kind) if each["metadata"]["name"] == name)
    return list(found["rules"])


def test_cluster_permissions_equal_the_documented_ones(defaults: list[Object]) -> None:
    granted = (role(defaults, "ClusterRole", name) for name in ("gaudi-operator", "gaudi-operator-classes"))
    assert single(list(chain.from_iterable(granted))) == single(rules("cluster"))


def test_lease_permissions_equal_the_documented_ones(defaults: list[Object]) -> None:
    assert single(role(defaults, "Role", "gaudi-operator-leader")) == single(rules("namespace"))


def test_lease_permissions_cover_only_the_operators_lease(defaults: list[Object]) -> None:
    lease = environment_of(defaults)["GAUDI_OPERATOR_LEASE_NAME"]
    named = [rule for rule in role(defaults, "Role", "gaudi-operator-leader") if rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in named] == [[lease]]


def test_operator_reads_no_secrets_and_uses_no_wildcards(defaults: list[Object]) -> None:
    granted = single(role(defaults, "ClusterRole", "gaudi-operator"))
    assert not {each for each in granted if "*" in each or "secrets" in each}


def test_permissions_are_limited_to_watched_namespaces() -> None:
    objects = render(watchNamespaces=["team-a", "team-b"])
    bindings = [each for each in of_kind(objects, "RoleBinding") if each["roleRef"]["kind"] == "ClusterRole"]
    assert [each["metadata"]["namespace"] for each in bindings] == ["team-a", "team-b"]
    assert [each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")] == ["gaudi-operator-classes"]
    assert environment_of(objects)["GAUDI_OPERATOR_WATCH_NAMESPACES"] == "team-a,team-b"


def test_class_role_allows_only_reading_classes(defaults: list[Object]) -> None:
    granted = single(role(defaults, "ClusterRole", "gaudi-operator-classes"))
    assert granted == {("inference.gaudi.dev", "gaudiinferenceclasses", verb) for verb in ("get", "list", "watch")}


def test_view_role_allows_only_reading(defaults: list[Object]) -> None:
    verbs = {verb for _, _, verb in single(role(defaults, "ClusterRole", "gaudi-operator-view"))}
    assert verbs == {"get", "list", "watch"}


def test_editors_never_write_status(defaults: list[Object]) -> None:
    resources = {resource for _, resource, _ in single(role(defaults, "ClusterRole", "gaudi-operator-edit"))}
    assert resources == {"gaudiinferences", "gaudiinferences/scale"}


def test_existing_service_account_is_used_and_bound() -> None:
    objects = render(serviceAccount={"create": False, "name": "mine"})
    assert not of_kind(objects, "ServiceAccount")
    assert pod_of(objects)["serviceAccountName"] == "mine"
    assert {each["subjects"][0]["name"] for each in of_kind(objects, "ClusterRoleBinding")} == {"mine"}
