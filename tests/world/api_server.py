"""Answers requests of the operator's client as an API server does, over the objects in memory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gaudi_operator.shell.client import MERGE_PATCH, SERVER_APPLY, ApiResponse
from gaudi_operator.shell.kinds import EVENT, LEADER_WORKER_SET, LEASE, OPTIONAL, WATCHED, Kind
from tests.support.builders import merged
from tests.world.api import Api, Invalid, Object, ending
from tests.world.clock import stamp

_KINDS = {(kind.api_version, kind.plural): kind for kind in (*WATCHED, *OPTIONAL, EVENT, LEASE)}
_WITH_GENERATION = ("ReplicaSet", "LeaderWorkerSet")
_STATUS = ("apiVersion", "kind", "metadata", "status")


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, reason: str, message: str = "") -> None:
        """As in a Status."""
        super().__init__(reason)
        self.answer = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}


@dataclass(frozen=True)
class Request:
    """A request, read."""

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
    """`apis` has objects by (namespace, kind), and with an empty kind all others; `now` is in seconds of the world."""

    apis: Mapping[tuple[str, str], Api]
    now: Callable[[], float]

    def answer(self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str) -> ApiResponse:
        """What the API server says; nothing of `body` is kept."""
        try:
            found = self._found(method, path, body and json.loads(json.dumps(body)), content_type)
        except Refused as refused:
            return ApiResponse(refused.answer["code"], json.dumps(refused.answer).encode())
        return ApiResponse(200, json.dumps(found).encode())

    def _found(self, method: str, path: str, body: Any, content_type: str) -> Object:
        parts = urlsplit(path)
        _, root, *names = parts.path.split("/")
        version, rest = ("/".join(names[:2]), names[2:]) if root == "apis" else (names[0], names[1:])
        if not rest:
            return _discovery(version)
        _, namespace, plural, name, subresource, *_ = (*rest, "", "")
        query = parse_qs(parts.query)
        manager = query.get("fieldManager", [""])[0]
        kind = _KINDS[version, plural]
        return self._do(Request(method, kind, namespace, name, subresource, manager, content_type, body))

    def _do(self, asked: Request) -> Object:
        kinds = (asked.kind.kind, "")
        api = next(self.apis[asked.namespace, each] for each in kinds if (asked.namespace, each) in self.apis)
        live = api.get(asked.kind.kind, asked.name)
        match asked.method, asked.content_type:
            case "POST", _:
                return self._create(api, asked)
            case "PATCH", content_type if content_type == SERVER_APPLY:
                return self._apply(api, asked, live)
        if live is None:
            raise Refused(404, "NotFound")
        match asked.method, asked.content_type:
            case "GET", _:
                return live
            case "PUT", _:
                return _replace(api, asked, live)
            case "DELETE", _:
                return _delete(api, asked, live, self.now())
            case "PATCH", content_type if content_type == MERGE_PATCH:
                return api.put(merged(live, asked.body))
        raise Refused(415, "UnsupportedMediaType")

    def _create(self, api: Api, asked: Request) -> Object:
        if api.get(asked.kind.kind, asked.body["metadata"]["name"]):
            raise Refused(409, "AlreadyExists")
        return api.put(asked.body, creationTimestamp=stamp(self.now()))

    def _apply(self, api: Api, asked: Request, live: Object | None) -> Object:
        body, uid = asked.body, asked.body["metadata"].get("uid")
        if live is None and asked.subresource:
            raise Refused(404, "NotFound")
        if uid is not None and (live is None or live["metadata"]["uid"] != uid):
            raise Refused(409, "Conflict", "uid mismatch")
        version = body["metadata"].pop("resourceVersion", None)
        if live is not None and version not in (None, live["metadata"]["resourceVersion"]):
            raise Refused(409, "Conflict", "the object has been modified")
        taken = {
            name: each for name, each in body.items() if (name in _STATUS if asked.subresource else name != "status")
        }
        fields: Object = {"creationTimestamp": stamp(self.now())}
        if asked.kind.kind in _WITH_GENERATION:
            fields["generation"] = 1
        try:
            return api.apply(taken, asked.manager, **fields)
        except Invalid as error:
            raise Refused(422, "Invalid", str(error)) from error


def _discovery(version: str) -> Object:
    """As in a cluster where nobody has installed more."""
    found = [kind.plural for known, kind in _KINDS.items() if known[0] == version and kind is not LEADER_WORKER_SET]
    if not found:
        raise Refused(404, "NotFound")
    return {"kind": "APIResourceList", "resources": [{"name": each} for each in found]}


def _replace(api: Api, asked: Request, live: Object) -> Object:
    version = asked.body["metadata"].get("resourceVersion")
    if version not in (None, live["metadata"]["resourceVersion"]):
        raise Refused(409, "Conflict")
    return api.put(asked.body)


def _delete(api: Api, asked: Request, live: Object, now: float) -> Object:
    wanted = ((asked.body or {}).get("preconditions") or {}).get("uid")
    if wanted not in (None, live["metadata"]["uid"]):
        raise Refused(409, "Conflict", "the UID in the precondition is another one")
    grace = live.get("spec", {}).get("terminationGracePeriodSeconds", 0) if live["kind"] == "Pod" else 0
    if grace:
        return live if ending(live) else api.put(live, deletionTimestamp=stamp(now + grace))
    api.remove(live["kind"], live["metadata"]["name"])
    return {"kind": "Status", "status": "Success"}
