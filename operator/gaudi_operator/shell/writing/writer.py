"""Writes of a decision to the API server. Every response is stored, so that later decisions use it.

The status is written last, once per reconcile, and only if it has changed. The core limits how often progress is
written. For this limit, `status_written_at` returns the time of the last write. After a refused request, the condition
Stalled has the reason, and Ready is False.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Apply, Delete, SetDeletionCost, SetGate
from gaudi_operator.core.gate.condition import conditions_except_gate, gate_condition
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, FIELD_MANAGER, REMOVED_FIRST
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.text_formats import format_canonical_json
from gaudi_operator.errors import NotFoundError, StalledError, TransientError, WaitingError
from gaudi_operator.shell.client import SERVER_APPLY, ClusterClient
from gaudi_operator.shell.kinds import KINDS, POD, RESOURCE, Kind, kind_of
from gaudi_operator.shell.watching.store import (
    Store,
    StoreKey,
    is_stored_object_controlled_by,
    is_stored_object_retained,
    stored_version,
)
from gaudi_runtime.contract.text import make_one_line

GATE_MANAGER = f"{FIELD_MANAGER}-gate"
"""The field manager of gates. It owns only the gate condition in pods/status."""

DELETION_COST_MANAGER = f"{FIELD_MANAGER}-cost"
"""The field manager of deletion costs. An apply without the annotation removes the annotation."""

NO_VERSION = "1"
"""A resource version that no object has.

A server-side apply with this version creates an object, or conflicts if the object exists. After a POST, the fields
would belong to an update, and no later apply could remove them.
"""
_TAKEN = frozenset({"Conflict", "AlreadyExists"})

GONE_SECONDS = 1.0
"""Seconds until the next reconcile of a deleted resource that is still in the store."""


_MOST_KNOWN = 10_000


@dataclass(frozen=True)
class _StatusWrite:
    """The last status write of a resource: hashes of the request and of the result, and the time."""

    requested_digest: str
    result_digest: str
    written_at: datetime


@dataclass
class _RecentWrites:
    """The operator's own writes for a resource since the last call of pop_recent_writes().

    `versions` are the resource versions after these writes. Watches also deliver these versions. `has_foreign_changes`
    is True if a response contained changes of other clients, which no watch delivers separately.
    """

    versions: set[int] = field(default_factory=set)
    has_foreign_changes: bool = False


class Writer:
    """The writer of children, gates and deletion costs, and of the status at the end of a reconcile."""

    def __init__(self, cluster: ClusterClient, store: Store, clock: Clock = SYSTEM) -> None:
        """Create a writer."""
        self._clock = clock
        self._cluster = cluster
        self._store = store
        self._status_writes: dict[str, _StatusWrite] = {}
        self._recent_writes: dict[StoreKey, _RecentWrites] = {}

    async def perform(self, key: StoreKey, action: Action) -> None:
        """Perform one action for the resource `key`. Raises OperatorError."""
        match action:
            case Apply():
                await self._apply(key, action)
            case Delete():
                await self._delete(key, action)
            case SetGate():
                await self._set_gate(key, action)
            case SetDeletionCost():
                await self._set_deletion_cost(key, action)

    def pop_recent_writes(self, key: StoreKey) -> _RecentWrites:
        """Return the operator's writes for the resource since the last call, and clear them."""
        return self._recent_writes.pop(key, _RecentWrites())

    async def check_still_exists(self, key: StoreKey, actions: Iterable[Action]) -> None:
        """Raise WaitingError if the resource was deleted and one of `actions` would create an object for it.

        After an outage, the operator may list the children before the resources. Then the deleted children are missing
        in the store, but the deleted resource is still there.
        """
        if not any(self._creates(key, action) for action in actions):
            return
        stored = current = self._store.resource(key)  # None if the resource was deleted during the reconcile
        # If a child was deleted, read the resource from the API server, because the resource may have been deleted at
        # the same time.
        if stored is not None and key in self._store.maybe_deleted:
            current = await self._find(RESOURCE.path(key.namespace, key.name))
        if stored is None or current is None or stored["metadata"]["uid"] != current["metadata"]["uid"]:
            message = f"{RESOURCE.kind} {key.namespace}/{key.name} was deleted: no more objects are created for it."
            raise WaitingError("ResourceGone", message, GONE_SECONDS)
        self._store.maybe_deleted.discard(key)

    async def read_namespace_labels(self, key: StoreKey) -> dict[str, str]:
        """Return the labels of the resource's namespace. Raises OperatorError if the namespace cannot be read."""
        namespace = await self._find(f"/api/v1/namespaces/{key.namespace}") or {"metadata": {}}
        return dict(namespace["metadata"].get("labels") or {})

    async def _find(self, path: str) -> Manifest | None:
        try:
            return await self._cluster.request("GET", path)
        except NotFoundError:
            return None

    def _creates(self, key: StoreKey, action: Action) -> bool:
        return isinstance(action, Apply) and self._find_owned_object(key, action.manifest) is None

    def _find_owned_object(self, key: StoreKey, manifest: Manifest) -> Manifest | None:
        """Return the object with this kind and name if the resource owns or may adopt it. Labels prove no ownership."""
        stored, resource = (
            self._store.get(key, kind_of(manifest), manifest["metadata"]["name"]),
            self._store.resource(key),
        )
        if stored is None or resource is None or is_stored_object_controlled_by(stored, resource["metadata"]["uid"]):
            return stored
        return stored if is_stored_object_retained(stored) else None

    def status_written_at(self, uid: str) -> datetime | None:
        """Return the time at which this process last wrote the status of a resource; None if there was no write."""
        last_write = self._status_writes.get(uid)
        return last_write.written_at if last_write else None

    async def write_status(self, resource: Manifest, status: GaudiInferenceStatus) -> None:
        """Write the operator's fields of the status if they have changed. Raises OperatorError if the write fails."""
        metadata, current = resource["metadata"], resource.get("status") or {}
        requested = _to_printable(_drop_empty(status.model_dump(by_alias=True, exclude_none=True, mode="json")))
        last = self._status_writes.get(metadata["uid"])
        # If another manager owns fields of the status, the current status never equals the requested status. In this
        # case, compare both with the request and the result of the last write.
        if requested == current or (
            last and _digest(requested) == last.requested_digest and _digest(current) == last.result_digest
        ):
            return
        key = StoreKey(metadata["namespace"], metadata["name"])
        body = _skeleton(RESOURCE, *key, metadata["uid"])
        path = RESOURCE.path(*key, "status")
        answer: Mapping[str, Any] = {}
        # Ignore NotFoundError. The resource was deleted, and its deletion event will arrive later.
        with suppress(NotFoundError):
            answer = await self._server_apply(key, path, {**body, "status": requested}, FIELD_MANAGER)
        self._status_writes[metadata["uid"]] = _StatusWrite(
            _digest(requested), _digest(answer.get("status") or {}), self._clock.now()
        )
        # Drop the oldest entries to limit memory. A leader may run for months while resources are created and deleted.
        while len(self._status_writes) > _MOST_KNOWN:
            self._status_writes.pop(next(iter(self._status_writes)))

    async def _apply(self, key: StoreKey, action: Apply) -> None:
        manifest = action.manifest
        kind = kind_of(manifest)
        path = kind.path(key.namespace, manifest["metadata"]["name"])
        body = {**manifest, "metadata": {**manifest["metadata"], "namespace": key.namespace}}
        existing = self._find_owned_object(key, manifest)
        if existing is None:
            try:
                await self._server_apply(key, path, _add_metadata(body, resourceVersion=NO_VERSION), FIELD_MANAGER)
                return
            except TransientError as error:
                if error.reason not in _TAKEN:
                    raise
                existing = await self._read_owned_object(key, kind, path)
                if existing is None:
                    raise
        # Send the UID, so that the API server rejects the write if another object now has the same name.
        await self._server_apply(key, path, _add_metadata(body, uid=existing["metadata"]["uid"]), FIELD_MANAGER)

    async def _read_owned_object(self, key: StoreKey, kind: Kind, path: str) -> Manifest | None:
        """Return the resource's object at `path`; None if none exists. Raises StalledError if it has another owner."""
        manifest, resource = await self._find(path), self._store.resource(key)
        if manifest is None or resource is None:
            return None
        if not (
            is_stored_object_controlled_by(manifest, resource["metadata"]["uid"]) or is_stored_object_retained(manifest)
        ):
            raise StalledError(
                "NameTaken",
                f"{kind.kind} {key.namespace}/{manifest['metadata']['name']} exists and belongs to another owner. "
                f"Delete that object, or give the {RESOURCE.kind} another name.",
            )
        return manifest

    async def _delete(self, key: StoreKey, action: Delete) -> None:
        kind = KINDS[action.api_version, action.kind]
        # Delete by UID, because another object may have the same name now. Use background propagation. Otherwise the
        # object would remain until its pods have drained.
        options = {"preconditions": {"uid": action.uid}, "propagationPolicy": "Background"}
        stored = self._store.get(key, kind, action.name)
        try:
            answer = await self._cluster.request("DELETE", kind.path(key.namespace, action.name), options)
        except NotFoundError:
            answer = {}
        # If finalizers or a grace period delay the deletion, the response is the object. Otherwise the response is a
        # Status.
        if answer.get("kind") == action.kind:
            self._store_response(key, answer)
        elif stored and stored["metadata"]["uid"] == action.uid:
            self._store.remove(stored)

    async def _set_gate(self, key: StoreKey, action: SetGate) -> None:
        condition = gate_condition(self._store.get(key, POD, action.pod) or {}, action, self._clock.now())
        body = _skeleton(POD, key.namespace, action.pod, action.uid)
        path = POD.path(key.namespace, action.pod, "status")
        with suppress(NotFoundError):  # the pod is gone, and its deletion event will arrive
            await self._server_apply(key, path, {**body, "status": {"conditions": [condition]}}, GATE_MANAGER)

    async def _set_deletion_cost(self, key: StoreKey, action: SetDeletionCost) -> None:
        """Write a deletion cost. If the pod was deleted, the write conflicts, and the next reconcile omits the pod."""
        body = _skeleton(POD, key.namespace, action.pod, action.uid)
        if action.removed_first:
            body["metadata"]["annotations"] = {DELETION_COST_ANNOTATION: str(REMOVED_FIRST)}
        await self._server_apply(key, POD.path(key.namespace, action.pod), body, DELETION_COST_MANAGER)

    async def _server_apply(
        self, key: StoreKey, path: str, body: Mapping[str, Any], field_manager: str
    ) -> dict[str, Any]:
        """Apply an object, and store and return the response. The watch may deliver the change too late."""
        # Force the apply. Otherwise every apply would fail with a conflict after another client has changed a field.
        query = {"fieldManager": field_manager, "force": "true"}
        answer = await self._cluster.request("PATCH", path, body, query=query, content_type=SERVER_APPLY)
        self._store_response(key, answer)
        return answer

    def _store_response(self, key: StoreKey, answer: Manifest) -> None:
        previous_object, recent_writes = self._store.find(answer), self._recent_writes.setdefault(key, _RecentWrites())
        self._store.put(answer)
        recent_writes.versions.add(stored_version(answer))
        if previous_object is not None and kind_of(answer) is POD and (current_object := self._store.find(answer)):
            recent_writes.has_foreign_changes |= _foreign_fields(previous_object) != _foreign_fields(current_object)


def _foreign_fields(pod: Manifest) -> tuple[object, ...]:
    """Return the fields of a pod that other clients write."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    foreign_status = {**status, "conditions": conditions_except_gate(pod)}
    return metadata.get("labels"), metadata.get("deletionTimestamp"), foreign_status


def _skeleton(kind: Kind, namespace: str, name: str, uid: str) -> dict[str, Any]:
    """Return an object with only name and UID. The API server rejects an apply if the name has another UID now."""
    metadata = {"namespace": namespace, "name": name, "uid": uid}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _add_metadata(manifest: Mapping[str, Any], **metadata: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def _drop_empty(value: Any) -> Any:
    """Remove empty maps and lists, because server-side apply writes null for a map that loses its last field."""
    if isinstance(value, dict):
        fields = {name: _drop_empty(item) for name, item in value.items()}
        return {name: item for name, item in fields.items() if item not in ({}, [])}
    return [_drop_empty(item) for item in value] if isinstance(value, list) else value


def _digest(status: Mapping[str, Any]) -> str:
    return sha256(format_canonical_json(status).encode("utf-8", "surrogatepass")).hexdigest()


def _to_printable(value: Any) -> Any:
    """Return a value to write, with each text on one line and without terminal control sequences."""
    if isinstance(value, str):
        return make_one_line(value)
    if isinstance(value, dict):
        return {name: _to_printable(item) for name, item in value.items()}
    return [_to_printable(item) for item in value] if isinstance(value, list) else value
