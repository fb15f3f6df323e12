"""The requests to the API server that are needed to start a cluster."""

import ssl
from pathlib import Path

import httpx


class ApiServer:
    """A client of the API server at `server`, with the administrator's certificate in `pki`."""

    def __init__(self, server: str, pki: Path) -> None:
        """Create the client without sending anything."""
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        # Ignore the proxies of the environment, because a proxy cannot reach this private network.
        self._client = httpx.Client(base_url=server, verify=context, trust_env=False, timeout=10)

    def is_ready(self) -> bool:
        """Return True if the API server reports that it is ready, and False if the API server does not listen."""
        try:
            return self._client.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def exists(self, path: str) -> bool:
        """Return True if an object exists at `path`."""
        answer = self._client.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return False
        answer.raise_for_status()
        return True

    def has_condition(self, path: str, condition_type: str) -> bool:
        """Return True if the object at `path` exists and its condition `condition_type` is True."""
        answer = self._client.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return False
        conditions = answer.raise_for_status().json().get("status", {}).get("conditions", [])
        return any(entry["type"] == condition_type and entry["status"] == "True" for entry in conditions)

    def patch(self, path: str, operations: list[dict[str, str]]) -> None:
        """Send a JSON patch."""
        headers = {"Content-Type": "application/json-patch+json"}
        self._client.patch(path, json=operations, headers=headers).raise_for_status()

    def apply(self, path: str, manifest: dict[str, object]) -> None:
        """Send a server-side apply of one object."""
        headers = {"Content-Type": "application/apply-patch+yaml"}
        parameters = {"fieldManager": "localcluster", "force": "true"}
        self._client.patch(path, json=manifest, headers=headers, params=parameters).raise_for_status()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
