"""The operator's permissions, read from docs/reference/rbac.md. Tests therefore grant exactly the documented rules."""

from pathlib import Path
from typing import Any

import yaml

from scripts.chart_docs import MANIFEST

Object = dict[str, Any]
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "rbac.md"


def rules(scope: str) -> list[Object]:
    """Return the policy rules of one scope: `cluster` or `namespace`."""
    rows = [line.strip("|").split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [_rule(*row[1:4]) for row in cells if row[0] == scope]


def grants(user: str, namespace: str) -> list[Object]:
    """Return roles and bindings that grant all documented permissions to `user`. The Lease is in `namespace`."""
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    everywhere = _role("ClusterRole", {"name": user.replace(":", "-")}, rules("cluster"))
    here = _role("Role", {"name": "gaudi-operator", "namespace": namespace}, rules("namespace"))
    return [everywhere, here, _binding(everywhere, subject), _binding(here, subject)]


def policy_manifests() -> list[Object]:
    """Return the admission policies of an installation and their bindings."""
    whole = filter(None, yaml.safe_load_all(MANIFEST.read_text()))
    return [each for each in whole if each["kind"].startswith("ValidatingAdmissionPolicy")]


def _rule(group: str, resources: str, verbs: str) -> Object:
    return {
        "apiGroups": ["" if group == "core" else group],
        "resources": resources.split(", "),
        "verbs": verbs.split(", "),
    }


def _role(kind: str, metadata: Object, policy: list[Object]) -> Object:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": policy}


def _binding(role: Object, subject: Object) -> Object:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": reference,
        "subjects": [subject],
    }
