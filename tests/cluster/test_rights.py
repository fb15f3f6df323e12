"""The permissions of the installed operator on all resources. These permissions equal docs/reference/rbac.md."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import yaml

from gaudi_operator.settings import Settings
from localcluster import ControlPlane
from scripts.chart_docs import MANIFEST
from tests.cluster.objects import Objects, admin_client
from tests.support.permissions import rules

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "restore")
"""The verbs of the API, and the verb that the chart's policy requires for writes of revisions."""
HIGHER = ("impersonate", "bind", "escalate", "approve", "sign")
"""Verbs that allow an account to act as another one."""

LEASE = Settings.model_fields["lease_name"].default

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


@pytest.fixture
def account(control_plane: ControlPlane, crd: str, objects: Objects, namespace: str, authority: "Authority") -> str:
    """An account with the permissions that the kubectl manifest gives to the operator's account."""
    text = MANIFEST.read_text().replace("gaudi-system", namespace)
    for manifest in filter(None, yaml.safe_load_all(text)):
        if manifest["apiVersion"].startswith("rbac.authorization.k8s.io/") and "aggregat" not in json.dumps(manifest):
            # Rename cluster-wide roles and bindings for this test. Other tests grant permissions to an account of the
            # same name, and their roles must not mix with the roles of this test.
            if manifest["kind"].startswith("Cluster"):
                manifest["metadata"]["name"] += f"-{namespace}"
            if manifest["kind"] == "ClusterRoleBinding":
                manifest["roleRef"]["name"] += f"-{namespace}"
            objects.put(manifest, namespace)
    name = f"system:serviceaccount:{namespace}:gaudi-operator"
    for scope in ("cluster", "namespace"):  # new roles take effect after a moment
        right = min(documented(scope))
        control_plane.wait(partial(authority.allows, name, namespace, right, LEASE), f"the rights of the {scope}")
    return name


class Authority:
    """The resources of the API server and the permissions of its users."""

    def __init__(self, plane: ControlPlane) -> None:
        """Prepare the client without a request."""
        self._client = admin_client(plane)

    def resources(self) -> Iterator[tuple[str, str]]:
        """Yield the API group and the name of every served resource, including subresources."""
        groups = self._client.get("/apis").json()["groups"]
        versions = [("", "/api/v1")]
        versions += [(each["name"], f"/apis/{one['groupVersion']}") for each in groups for one in each["versions"]]
        for group, path in versions:
            for each in self._client.get(path).json()["resources"]:
                yield group, each["name"]

    def rights(self, user: str, namespace: str, name: str = LEASE) -> set[Right]:
        """Return all permissions of a user in a namespace, for objects with the name `name`."""
        known = sorted({*self.resources(), *(right[:2] for right in documented("cluster") | documented("namespace"))})
        every = ((*each, verb) for each, verb in product(known, (*VERBS, *HIGHER)))
        return {right for right in every if self.allows(user, namespace, right, name)}

    def allows(self, user: str, namespace: str, right: Right, name: str) -> bool:
        """Return whether a user has this permission for the object `name`."""
        resource, _, subresource = right[1].partition("/")
        access = {"namespace": namespace, "name": name, "group": right[0], "verb": right[2]}
        access |= {"resource": resource, "subresource": subresource}
        review: dict[str, Any] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": access},
        }
        answer = self._client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
        return bool(answer.raise_for_status().json()["status"]["allowed"])

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


@pytest.fixture
def authority(control_plane: ControlPlane) -> Iterator[Authority]:
    client = Authority(control_plane)
    yield client
    client.close()


def documented(scope: str) -> set[Right]:
    """Return the permissions that docs/reference/rbac.md lists for a scope."""
    return {
        (group, resource, verb)
        for rule in rules(scope)
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


@pytest.mark.parametrize(("here", "scopes"), [(True, ("cluster", "namespace")), (False, ("cluster",))])
def test_operator_has_exactly_the_documented_permissions(
    authority: Authority, account: str, namespace: str, here: bool, scopes: tuple[str, ...]
) -> None:
    where = namespace if here else "default"
    of_any_account = authority.rights("system:serviceaccount:default:unknown", where)
    assert authority.rights(account, where) - of_any_account == set[Right]().union(*map(documented, scopes))


def test_operator_may_not_access_other_leases(authority: Authority, account: str, namespace: str) -> None:
    rights = [("coordination.k8s.io", "leases", verb) for verb in ("get", "update", "patch", "delete")]
    assert not [each for each in rights if authority.allows(account, namespace, each, "another-lease")]
