"""The operator's API client with an in-memory API server."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.client import ApiClientResponse, ClusterClient
from gaudi_operator.shell.kinds import Kind
from gaudi_operator.shell.watching.store import Store, StoreKey
from tests.support.builders import gaudi_inference
from tests.world.api import Api, Object
from tests.world.api_server import ApiServer

NAMESPACE = "models"
KEY = StoreKey(NAMESPACE, "tiny")


class Memory:
    """A transport to an in-memory API server that records requests.

    `requests` has the received requests, and `queries` has their queries and bodies. Each entry of `answers` replaces
    one response of the API server. `always` replaces the responses for a path.
    """

    def __init__(self) -> None:
        """Create a transport to an empty API server."""
        self.api, self.requests = Api(), list[tuple[str, str]]()
        self.queries = list[tuple[dict[str, str], Mapping[str, Any]]]()
        self.answers, self.always = list[ApiClientResponse | OSError](), dict[str, ApiClientResponse]()
        self.server = ApiServer({(NAMESPACE, ""): self.api}, lambda: 0.0)
        self.cluster = ClusterClient(self, lambda *_: None)
        self.store = Store()

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The recorded requests that are not GETs."""
        return [each for each in self.requests if each[0] != "GET"]

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, _: float
    ) -> ApiClientResponse:
        """Record one request, and return the response."""
        parts = urlsplit(path)
        self.requests.append((method, parts.path))
        self.queries.append((dict(parse_qsl(parts.query)), body or {}))
        answer = self.answers.pop(0) if self.answers else self.always.get(path)
        answer = answer or self.server.answer(method, path, body, content_type)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def exists(self, manifest: Object, seen: bool = True) -> Object:
        """Create an object, and let the operator observe it if `seen`."""
        made = self.api.put(manifest)
        if seen:
            self.store.put(made)
        return made

    def resource(self, **status: Any) -> Object:
        """Create the GaudiInference with this status, and return it."""
        return self.exists({**gaudi_inference("tiny", NAMESPACE), **({"status": status} if status else {})})

    def replace(self, old: Object, **fields: Any) -> Object:
        """Delete an object and create another object with the same name. The operator observes neither change."""
        self.api.remove(old["kind"], old["metadata"]["name"])
        metadata = {name: each for name, each in old["metadata"].items() if name not in ("uid", "resourceVersion")}
        return self.exists({**old, "metadata": metadata, **fields}, seen=False)


def manifest(kind: Kind, name: str, owner: Object | None = None, **fields: Any) -> Object:
    """Return an object with the operator's label; `owner` is its controller."""
    metadata: Object = {"namespace": NAMESPACE, "name": name, "labels": {NAME_LABEL: "tiny"}}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner["kind"], "uid": owner["metadata"]["uid"], "controller": True}]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
