"""The store of observed objects: the newest version from watches and from responses to the operator's writes.

Responses are stored immediately. Otherwise the next reconcile would decide on the state before the write, and write the
same change a second time.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gaudi_operator.core.gate.condition import gate_condition_status
from gaudi_operator.core.names import (
    GROUP_NAME_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.observed import Manifest, Observed, ObservedReport
from gaudi_operator.shell.kinds import (
    AUTOSCALER,
    CLASS,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DISRUPTION_BUDGET,
    LEADER_WORKER_SET,
    NETWORK_POLICY,
    POD,
    PVC,
    REPLICA_SET,
    RESOURCE,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Kind,
    kind_of,
)
from gaudi_operator.shell.watching.memory_shares import MemoryShares, MemoryWeight, memory_weight
from gaudi_operator.shell.watching.trimmed_objects import encode_trimmed_templates, equal_trimmed_objects, trim_object

log = logging.getLogger(__name__)


class StoreKey(NamedTuple):
    """The key of a resource in the store: the namespace and name of a GaudiInference."""

    namespace: str
    name: str


CLASSES = StoreKey("", "")
"""The key of classes, which apply to all resources."""


def store_key_of(manifest: Manifest) -> StoreKey | None:
    """Return the key of the resource that an object belongs to; None for a foreign object."""
    metadata = manifest["metadata"]
    if kind_of(manifest) is CLASS:
        return CLASSES
    if kind_of(manifest) is RESOURCE:
        return StoreKey(metadata["namespace"], metadata["name"])
    labels = metadata.get("labels") or {}
    if kind_of(manifest) is STATEFUL_SET:
        # A StatefulSet has a label with the name of its LeaderWorkerSet. This name is the name of the resource, a
        # hyphen and the revision.
        owner_name = str(labels.get(GROUP_NAME_LABEL, "")).rpartition("-")[0]
    else:
        owner_name = labels.get(NAME_LABEL, "")
    return StoreKey(metadata["namespace"], owner_name) if owner_name else None


def stored_version(manifest: Manifest) -> int:
    """Return the version of a stored object as a number.

    The API server guarantees that versions of the same kind are comparable.
    """
    return int(manifest["metadata"]["resourceVersion"])


class Store:
    """The store of all watched objects, grouped by resource.

    `groups_served` is True if LeaderWorkerSets are watched. `unlisted` has the collections (a kind in one or in all
    namespaces) that are not listed yet. Before the list, an object may exist although it is not in the store.
    `maybe_deleted` has the resources that lost a child, perhaps because the resource itself was deleted.
    """

    def __init__(self) -> None:
        """Create an empty store."""
        self.groups_served = False
        self.unlisted: set[tuple[Kind, str | None]] = set()
        self.maybe_deleted: set[StoreKey] = set()
        self._objects_by_key: dict[StoreKey, dict[tuple[Kind, str], Manifest]] = defaultdict(dict)
        self._keys: dict[tuple[Kind, str], StoreKey] = {}
        self._deleted_versions: dict[str, int] = {}
        self._shares = MemoryShares()

    def put(self, manifest: Mapping[str, Any]) -> StoreKey | None:
        """Store a version of an object. Returns the key of the resource to wake; None if nothing changed."""
        key, kind, uid = store_key_of(manifest), kind_of(manifest), manifest["metadata"]["uid"]
        if key is None:
            return self._drop(kind, uid)
        previous_key, stored = self._keys.get((kind, uid)), self.find(manifest)
        # Ignore an old version. A watch may deliver a version that is older than the operator's last write or than the
        # deletion of the object.
        if stored_version(manifest) <= max(
            stored_version(stored) if stored else -1, self._deleted_versions.get(uid, -1)
        ):
            return None
        trimmed = trim_object(kind, manifest)
        # If the object's label now names another resource, remove the object from the previous resource.
        if previous_key not in (None, key):
            self._drop(kind, uid)
        kept, decoded_weight = encode_trimmed_templates(kind, trimmed), memory_weight(trimmed)
        weight = MemoryWeight(decoded_weight, decoded_weight if kept is trimmed else memory_weight(kept))
        # Only administrators create classes, so classes have no share.
        if kind is not CLASS and not self._shares.reserve(*self._share(key, kept), kind, uid, weight):
            return self._drop(kind, uid)
        self._objects_by_key[key][kind, uid] = kept
        self._keys[kind, uid] = key
        if kind is RESOURCE and not stored:
            self._reassign_shares(key)
        return None if previous_key == key and stored and equal_trimmed_objects(stored, kept) else key

    def remove(self, manifest: Mapping[str, Any]) -> StoreKey | None:
        """Remove a deleted object, and ignore its older versions from now on. Returns the resource to wake."""
        uid = manifest["metadata"]["uid"]
        self._deleted_versions[uid] = stored_version(manifest)
        # Forget the oldest deletions. A watch is late by seconds at most, so it delivers no old version of an object
        # after 10,000 more deletions.
        while len(self._deleted_versions) > 10_000:
            self._deleted_versions.pop(next(iter(self._deleted_versions)))
        return self._drop(kind_of(manifest), uid)

    def end_list(self, kind: Kind, namespace: str | None, uids: Collection[str], version: int) -> Collection[StoreKey]:
        """Process the end of a list of `kind` at `version`. `uids` are the UIDs of the objects, already stored.

        Returns the resources to wake: no resource while another first list is missing, all resources after the last of
        the first lists, and later the resources whose objects were deleted.
        """
        keys = self.remove_missing_objects(kind, namespace, uids, version)
        self.mark_maybe_deleted(kind, *keys)
        for key in keys:
            log.info(
                "%s %s was deleted while not watched", kind.kind, key, extra={"resource": f"{key.namespace}/{key.name}"}
            )
        is_first_list = (kind, namespace) in self.unlisted
        self.unlisted.discard((kind, namespace))
        if self.unlisted:
            return ()
        if not is_first_list:
            return keys
        # Mark all resources as possibly deleted. The kinds are not listed at the same time, so an owner may have been
        # deleted after its list was read.
        self.maybe_deleted.update(self.resource_keys())
        # Wake all resources. Before the last of the first lists arrived, changes woke no resource.
        return tuple(self._objects_by_key)

    def mark_maybe_deleted(self, kind: Kind, *keys: StoreKey) -> None:
        """Mark resources that lost an object of `kind`. Pods do not count, because deletions of pods are normal."""
        if kind is not POD:
            self.maybe_deleted.update(key for key in keys if self.resource(key))

    def remove_missing_objects(
        self, kind: Kind, namespace: str | None, uids: Collection[str], version: int
    ) -> set[StoreKey]:
        """Remove objects that are missing in a list of `kind` at `version`. Returns the resources to wake.

        If a watch was broken for a long time, the kind is listed again, and the API server sends no deletion events.
        """
        missing_ids = [
            (key, uid)
            for key, objects in self._objects_by_key.items()
            for (object_kind, uid), manifest in objects.items()
            if object_kind is kind
            and namespace in (None, key.namespace)
            and uid not in uids
            and stored_version(manifest) <= version
        ]
        for _, uid in missing_ids:
            self._drop(kind, uid)
        return {key for key, _ in missing_ids}

    def get(self, key: StoreKey, kind: Kind, name: str) -> Manifest | None:
        """Return the resource's object with this kind and name; None if there is no such object."""
        return next((manifest for manifest in self._objects(key, kind) if manifest["metadata"]["name"] == name), None)

    def find(self, manifest: Manifest) -> Manifest | None:
        """Return the stored version of an object, found by its UID; None if the object is not stored."""
        object_id = kind_of(manifest), manifest["metadata"]["uid"]
        key = self._keys.get(object_id)
        return self._objects_by_key[key].get(object_id) if key else None

    def gate_is_open(self, key: StoreKey, uid: str) -> bool:
        """Return True if the gate of the resource's pod with that UID is open; False if there is no such pod."""
        return gate_condition_status(self._objects_by_key.get(key, {}).get((POD, uid)) or {}) == "True"

    def resource(self, key: StoreKey) -> Manifest | None:
        """Return the GaudiInference with this key; None if the GaudiInference is not stored."""
        return next(iter(self._objects(key, RESOURCE)), None)

    def count_resources(self) -> int:
        """Return the number of resources. Safe to call from another thread."""
        return sum(kind is RESOURCE for kind, _ in list(self._keys))

    def all_resources(self) -> list[Manifest]:
        """Return every resource. Safe to call from another thread, because dictionaries are copied in one step."""
        copies = (list(objects.items()) for objects in list(self._objects_by_key.values()))
        return [manifest for objects in copies for (kind, _), manifest in objects if kind is RESOURCE]

    def resource_keys(self) -> tuple[StoreKey, ...]:
        """Return the keys of all resources."""
        return tuple(key for (kind, _), key in self._keys.items() if kind is RESOURCE)

    def any_resource(self, predicate: Callable[[Manifest], bool]) -> bool:
        """Return True if `predicate` returns True for any resource."""
        resources = (self.resource(key) for key in self._objects_by_key)
        return any(predicate(resource) for resource in resources if resource is not None)

    def observe(
        self,
        key: StoreKey,
        reports: Mapping[str, ObservedReport],
        now: datetime,
        status_written_at: datetime | None = None,
    ) -> Observed | None:
        """Return the snapshot of a resource with the objects that it owns; None if the resource does not exist.

        Templates are encoded, as in the store. decode_trimmed_templates() decodes them.
        """
        resource = self.resource(key)
        if resource is None:
            return None
        owner_uids = {resource["metadata"]["uid"]}
        replica_sets = _select_owned(self._objects(key, REPLICA_SET), owner_uids)
        groups = _select_owned(self._objects(key, LEADER_WORKER_SET), owner_uids)
        leaders, workers = _leaders_and_workers(self._objects(key, POD), self._objects(key, STATEFUL_SET), groups)
        pods = (*_select_owned(self._objects(key, POD), _uids(replica_sets)), *leaders)
        return Observed(
            resource=resource,
            revisions=_select_owned(self._objects(key, CONTROLLER_REVISION), owner_uids),
            replica_sets=replica_sets,
            leader_worker_sets=groups,
            pods=pods,
            workers=workers,
            services=_select_owned(self._objects(key, SERVICE), owner_uids),
            config_maps=_select_owned(self._objects(key, CONFIG_MAP), owner_uids),
            service_accounts=_select_owned(self._objects(key, SERVICE_ACCOUNT), owner_uids),
            pvcs=_sort_by_name(
                pvc
                for pvc in self._objects(key, PVC)
                if is_stored_object_controlled_by(pvc, resource["metadata"]["uid"]) or is_stored_object_retained(pvc)
            ),
            pod_disruption_budgets=_select_owned(self._objects(key, DISRUPTION_BUDGET), owner_uids),
            network_policies=_select_owned(self._objects(key, NETWORK_POLICY), owner_uids),
            autoscalers=_select_owned(self._objects(key, AUTOSCALER), owner_uids),
            reports={uid: reports[uid] for pod in pods if (uid := pod["metadata"]["uid"]) in reports},
            now=now,
            status_written_at=status_written_at,
            groups_served=self.groups_served,
            classes=_sort_by_name(self._objects(CLASSES, CLASS)),
        )

    def _objects(self, key: StoreKey, kind: Kind) -> list[Manifest]:
        return [
            manifest for (object_kind, _), manifest in self._objects_by_key.get(key, {}).items() if object_kind is kind
        ]

    def _share(self, key: StoreKey, manifest: Manifest) -> tuple[str, str | None]:
        """Return the namespace and the name of the GaudiInference whose memory share an object uses.

        The name is None if no existing resource owns the object.
        """
        if kind_of(manifest) is RESOURCE:
            return key
        resource, owner_uid = self.resource(key), _controller(manifest).get("uid")
        if resource is None:
            return key.namespace, None
        # Workloads control pods and StatefulSets, and a retained PVC has no controller. The resource must control all
        # other objects.
        is_owned = kind_of(manifest) in (POD, STATEFUL_SET) or owner_uid in (None, resource["metadata"]["uid"])
        return key if is_owned else (key.namespace, None)

    def _reassign_shares(self, key: StoreKey) -> None:
        """Move the objects of a resource to other memory shares after the resource was created or deleted."""
        for (kind, uid), manifest in tuple(self._objects_by_key.get(key, {}).items()):
            if kind is RESOURCE:
                continue
            if not self._shares.reserve(*self._share(key, manifest), kind, uid, self._shares.weight_of(kind, uid)):
                self._drop(kind, uid)

    def _drop(self, kind: Kind, uid: str) -> StoreKey | None:
        self._shares.release(kind, uid)
        key = self._keys.pop((kind, uid), None)
        if key:
            del self._objects_by_key[key][kind, uid]
            if not self._objects_by_key[key]:
                del self._objects_by_key[key]
            if kind is RESOURCE:
                self.maybe_deleted.discard(key)
                self._reassign_shares(key)
        return key


def is_stored_object_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Return True if `uid` is the UID of the controller of a stored object."""
    return bool(_controller(manifest).get("uid") == uid)


def is_stored_object_retained(manifest: Manifest) -> bool:
    """Return True if a stored object is a PVC that outlives its resource.

    The next resource with the same name adopts this PVC.
    """
    labels = manifest["metadata"].get("labels") or {}
    is_unowned = kind_of(manifest) is PVC and not _controller(manifest)
    return is_unowned and labels.get(MANAGED_BY_LABEL) == MANAGED_BY


def _select_owned(manifests: Iterable[Manifest], owner_uids: Collection[str]) -> tuple[Manifest, ...]:
    """Return the objects whose controller is among `owner_uids`, sorted by name for deterministic reconciles."""
    return _sort_by_name(manifest for manifest in manifests if _controller(manifest).get("uid") in owner_uids)


def _leaders_and_workers(
    pods: Iterable[Manifest], stateful_sets: Sequence[Manifest], groups: Sequence[Manifest]
) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...]]:
    """Return the leaders and the workers of LeaderWorkerSets, sorted by name.

    A LeaderWorkerSet owns a StatefulSet of leaders, and each leader owns a StatefulSet of its workers. Each owner is
    found by UID, because any client can create a pod with these labels and with arbitrary owner references.
    """
    labelled_pods = [pod for pod in pods if WORKER_INDEX_LABEL in pod["metadata"]["labels"]]
    leaders = _select_owned(
        (pod for pod in labelled_pods if _leads(pod)), _uids(_select_owned(stateful_sets, _uids(groups)))
    )
    worker_set_uids = _uids(_select_owned(stateful_sets, _uids(leaders)))
    group_names = {group["metadata"]["name"] for group in groups}
    workers = _sort_by_name(
        pod
        for pod in labelled_pods
        if not _leads(pod)
        and (_controller(pod).get("uid") in worker_set_uids or _is_terminating_member(pod, group_names))
    )
    return leaders, workers


def _is_terminating_member(pod: Manifest, group_names: Collection[str]) -> bool:
    """Return True if a pod of these groups is terminating. A worker may hold cards even after its leader is deleted."""
    metadata = pod["metadata"]
    return "deletionTimestamp" in metadata and metadata["labels"].get(GROUP_NAME_LABEL) in group_names


def _uids(manifests: Iterable[Manifest]) -> set[str]:
    return {manifest["metadata"]["uid"] for manifest in manifests}


def _leads(pod: Manifest) -> bool:
    return bool(pod["metadata"]["labels"].get(WORKER_INDEX_LABEL) == "0")


def _sort_by_name(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    return tuple(sorted(manifests, key=lambda manifest: str(manifest["metadata"]["name"])))


def _controller(manifest: Manifest) -> Mapping[str, Any]:
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})
