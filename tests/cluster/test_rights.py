"""What the installed operator may do: exactly what docs/reference/rbac.md says, of all that the API server knows."""

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

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
HIGHER = ("impersonate", "bind", "escalate", "approve", "sign")
"""Verbs that make somebody else of whoever has them."""

LEASE = Settings.model_fields["lease_name"].default

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


@pytest.fixture
def account(control_plane: ControlPlane, crd: str, objects: Objects, namespace: str, authority: "Authority") -> str:
    """An account with the rights that the manifest for kubectl gives to the operator's."""
    text = MANIFEST.read_text().replace("gaudi-system", namespace)
    for manifest in filter(None, yaml.safe_load_all(text)):
        if manifest["apiVersion"].startswith("rbac.authorization.k8s.io/") and "aggregat" not in json.dumps(manifest):
            # Of its own: other tests grant rights to an account of that name.
            if manifest["kind"].startswith("Cluster"):
                manifest["metadata"]["name"] += f"-{namespace}"
            if manifest["kind"] == "ClusterRoleBinding":
                manifest["roleRef"]["name"] += f"-{namespace}"
            objects.put(manifest, namespace)
    name = f"system:serviceaccount:{namespace}:gaudi-operator"
    for scope in ("cluster", "namespace"):  # the API server learns of new roles a moment after they are made
        right = min(documented(scope))
        control_plane.wait(partial(authority.allows, name, namespace, right, LEASE), f"the rights of the {scope}")
    return name


class Authority:
    """What the API server knows, and whom it lets do what."""

    def __init__(self, plane: ControlPlane) -> None:
        """Nothing is asked yet."""
        self._client = admin_client(plane)

    def resources(self) -> Iterator[tuple[str, str]]:
        """API group and name of everything that is served, subresources included."""
        groups = self._client.get("/apis").json()["groups"]
        versions = [("", "/api/v1")]
        versions += [(each["name"], f"/apis/{one['groupVersion']}") for each in groups for one in each["versions"]]
        for group, path in versions:
            for each in self._client.get(path).json()["resources"]:
                yield group, each["name"]

    def rights(self, user: str, namespace: str, name: str = LEASE) -> set[Right]:
        """All that a user may do in a namespace, with an object of that name where there is one."""
        known = sorted({*self.resources(), *(right[:2] for right in documented("cluster") | documented("namespace"))})
        every = ((*each, verb) for each, verb in product(known, (*VERBS, *HIGHER)))
        return {right for right in every if self.allows(user, namespace, right, name)}

    def allows(self, user: str, namespace: str, right: Right, name: str) -> bool:
        """Whether a user may do it with the object of that name."""
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
    made = Authority(control_plane)
    yield made
    made.close()


def documented(scope: str) -> set[Right]:
    """The rights of a scope in docs/reference/rbac.md."""
    return {
        (group, resource, verb)
        for rule in rules(scope)
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


@pytest.mark.parametrize(("here", "scopes"), [(True, ("cluster", "namespace")), (False, ("cluster",))])
def test_operator_may_do_what_the_page_says_and_no_more(
    authority: Authority, account: str, namespace: str, here: bool, scopes: tuple[str, ...]
) -> None:
    where = namespace if here else "default"
    of_everybody = authority.rights("system:serviceaccount:default:nobody", where)
    assert authority.rights(account, where) - of_everybody == set[Right]().union(*map(documented, scopes))


def test_operator_may_touch_no_lease_but_its_own(authority: Authority, account: str, namespace: str) -> None:
    rights = [("coordination.k8s.io", "leases", verb) for verb in ("get", "update", "patch", "delete")]
    assert not [each for each in rights if authority.allows(account, namespace, each, "of-somebody-else")]
