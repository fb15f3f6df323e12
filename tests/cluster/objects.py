"""A fast client that writes objects as administrator. Use kubectl only in tests of kubectl itself."""

import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from localcluster import ControlPlane
from tests.support.builders import Object

_CLUSTER_WIDE = (
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "GaudiInferenceClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
# With this parameter, the API server rejects unknown fields. kubectl uses the same value by default.
_STRICT = {"fieldValidation": "Strict"}


class Refused(Exception):
    """The API server's refusal of an object."""


def admin_client(plane: ControlPlane) -> httpx.Client:
    """Return a client of the API server with administrator permissions."""
    pki = plane.run_dir / "pki"
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return httpx.Client(base_url=plane.addresses.server, verify=context, trust_env=False, timeout=30)


class Objects:
    """A client for the API server of `plane`, with one persistent connection."""

    def __init__(self, plane: ControlPlane) -> None:
        """Create the client without sending a request."""
        self._client = admin_client(plane)

    def create(self, manifest: Mapping[str, Any], namespace: str = "default", *, dry_run: bool = False) -> Object:
        """Create an object and return it as stored. With `dry_run`, the API server only validates the object.

        Raise Refused if the API server refuses the object.
        """
        return self._send("POST", _path(manifest, namespace), manifest, {"dryRun": "All"} if dry_run else {})

    def put(self, manifest: Mapping[str, Any], namespace: str = "default") -> Object:
        """Create or replace an object and return it as stored. Raise Refused if the API server refuses the object."""
        path = f"{_path(manifest, namespace)}/{manifest['metadata']['name']}"
        found = self._client.get(path)
        if found.status_code == httpx.codes.NOT_FOUND:
            return self.create(manifest, namespace)
        version = found.json()["metadata"]["resourceVersion"]
        metadata = {**manifest["metadata"], "resourceVersion": version}
        return self._send("PUT", path, {**manifest, "metadata": metadata})

    def delete(self, manifest: Mapping[str, Any], namespace: str = "default") -> None:
        """Delete an object."""
        self._client.delete(f"{_path(manifest, namespace)}/{manifest['metadata']['name']}").raise_for_status()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _send(self, method: str, path: str, body: Mapping[str, Any], query: Mapping[str, str] | None = None) -> Object:
        answer = self._client.request(method, path, json=body, params={**_STRICT, **(query or {})})
        if answer.is_error:
            raise Refused(answer.json()["message"])
        return dict(answer.json())


def _path(manifest: Mapping[str, Any], namespace: str) -> str:
    """Return the API path of the collection that contains the object."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/{'apis' if '/' in version else 'api'}/{version}"
    scope = "" if kind in _CLUSTER_WIDE else f"/namespaces/{manifest['metadata'].get('namespace', namespace)}"
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    # The plural of a kind follows English spelling: Policy becomes policies, and Class becomes classes.
    return f"{root}{scope}/{plural.removesuffix('ys') + 'ies' if plural.endswith('ys') else plural}"
