"""A simulated API server. It answers requests of the operator's client from objects in memory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gaudi_operator.shell.client import MERGE_PATCH, SERVER_APPLY, ApiClientResponse
from gaudi_operator.shell.kinds import EVENT, LEADER_WORKER_SET, LEASE, OPTIONAL, WATCHED, Kind
from tests.support.builders import merged
from tests.world.api import Api, Invalid, Object, ending
from tests.world.clock import stamp

_KINDS = {(kind.api_version, kind.plural): kind for kind in (*WATCHED, *OPTIONAL, EVENT, LEASE)}
_WITH_GENERATION = ("ReplicaSet", "LeaderWorkerSet")
_STATUS = ("apiVersion", "kind", "metadata", "status")


class Refused(Exception):
    """A request that the API server answers with an error."""

    def __init__(self, code: int, reason: str, message: str = "") -> None:
        """Set the fields of a Status."""
        super().__init__(reason)
        self.answer = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}


@dataclass(frozen=True)
class Request:
    """A parsed request."""

    method: str
    kind: Kind
    namespace: str
    name: str
    subresource: str
    manager: str
    content_type: str
    body: Any


@dataclass
class ApiServer:
    """A simulated API server. `now` returns the simulated seconds.

    `apis` contains the objects by (namespace, kind). The empty kind contains the objects of all other kinds.
    """

    apis: Mapping[tuple[str, str], Api]
    now: Callable[[], float]

    def answer(self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str) -> ApiClientResponse:
        """Return the answer of the API server. The server keeps no reference to `body`."""
        try:
            found = self._respond(method, path, body and json.loads(json.dumps(body)), content_type)
        except Refused as refused:
            return ApiClientResponse(refused.answer["code"], json.dumps(refused.answer).encode())
        return ApiClientResponse(200, json.dumps(found).encode())

    def _respond(self, method: str, path: str, body: Any, content_type: str) -> Object:
        parts = urlsplit(path)
        _, root, *names = parts.path.split("/")
        version, rest = ("/".join(names[:2]), names[2:]) if root == "apis" else (names[0], names[1:])
        if not rest:
            return _discovery(version)
        _, namespace, plural, name, subresource, *_ = (*rest, "", "")
        query = parse_qs(parts.query)
        manager = query.get("fieldManager", [""])[0]
        kind = _KINDS[version, plural]
        return self._execute(Request(method, kind, namespace, name, subresource, manager, content_type, body))

    def _execute(self, request: Request) -> Object:
        kinds = (request.kind.kind, "")
        api = next(self.apis[request.namespace, each] for each in kinds if (request.namespace, each) in self.apis)
        live = api.get(request.kind.kind, request.name)
        match request.method, request.content_type:
            case "POST", _:
                return self._create(api, request)
            case "PATCH", content_type if content_type == SERVER_APPLY:
                return self._apply(api, request, live)
        if live is None:
            raise Refused(404, "NotFound")
        match request.method, request.content_type:
            case "GET", _:
                return live
            case "PUT", _:
                return _replace(api, request, live)
            case "DELETE", _:
                return _delete(api, request, live, self.now())
            case "PATCH", content_type if content_type == MERGE_PATCH:
                return api.put(merged(live, request.body))
        raise Refused(415, "UnsupportedMediaType")

    def _create(self, api: Api, request: Request) -> Object:
        if api.get(request.kind.kind, request.body["metadata"]["name"]):
            raise Refused(409, "AlreadyExists")
        return api.put(request.body, creationTimestamp=stamp(self.now()))

    def _apply(self, api: Api, request: Request, live: Object | None) -> Object:
        body, uid = request.body, request.body["metadata"].get("uid")
        if live is None and request.subresource:
            raise Refused(404, "NotFound")
        if uid is not None and (live is None or live["metadata"]["uid"] != uid):
            raise Refused(409, "Conflict", "uid mismatch")
        version = body["metadata"].pop("resourceVersion", None)
        if live is not None and version not in (None, live["metadata"]["resourceVersion"]):
            raise Refused(409, "Conflict", "the object has been modified")
        taken = {
            name: each for name, each in body.items() if (name in _STATUS if request.subresource else name != "status")
        }
        fields: Object = {"creationTimestamp": stamp(self.now())}
        if request.kind.kind in _WITH_GENERATION:
            fields["generation"] = 1
        try:
            return api.apply(taken, request.manager, **fields)
        except Invalid as error:
            raise Refused(422, "Invalid", str(error)) from error


def _discovery(version: str) -> Object:
    """Return the resources of a cluster without additional API groups."""
    found = [kind.plural for known, kind in _KINDS.items() if known[0] == version and kind is not LEADER_WORKER_SET]
    if not found:
        raise Refused(404, "NotFound")
    return {"kind": "APIResourceList", "resources": [{"name": each} for each in found]}


def _replace(api: Api, request: Request, live: Object) -> Object:
    version = request.body["metadata"].get("resourceVersion")
    if version not in (None, live["metadata"]["resourceVersion"]):
        raise Refused(409, "Conflict")
    return api.put(request.body)


def _delete(api: Api, request: Request, live: Object, now: float) -> Object:
    wanted = ((request.body or {}).get("preconditions") or {}).get("uid")
    if wanted not in (None, live["metadata"]["uid"]):
        raise Refused(409, "Conflict", "the UID in the precondition is another one")
    grace = live.get("spec", {}).get("terminationGracePeriodSeconds", 0) if live["kind"] == "Pod" else 0
    if grace:
        return live if ending(live) else api.put(live, deletionTimestamp=stamp(now + grace))
    api.remove(live["kind"], live["metadata"]["name"])
    return {"kind": "Status", "status": "Success"}
