"""The store of observed objects: the newest version from watches and from responses to the operator's writes.

Responses are stored immediately. Otherwise the next reconcile would decide on the state before the write, and write the
same change a second time.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gaudi_operator.core.gate.condition import gate_status
from gaudi_operator.core.names import (
    GROUP_NAME_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.observed import Manifest, Observed, PodReport
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
from gaudi_operator.shell.watching.memory_shares import MemoryShares, memory_weight
from gaudi_operator.shell.watching.trimmed_objects import equal_except_version, trim_object

log = logging.getLogger(__name__)


class Key(NamedTuple):
    """The key of a resource in the store: the namespace and name of a GaudiInference."""

    namespace: str
    name: str


CLASSES = Key("", "")
"""The key of classes, which apply to all resources."""


_UNLIMITED = frozenset({RESOURCE, CLASS})
"""Kinds without a memory share, because the schema limits their size and only users of the operator create them."""


def key_of(manifest: Manifest) -> Key | None:
    """Return the key of the resource that an object belongs to; None for a foreign object."""
    metadata = manifest["metadata"]
    if kind_of(manifest) is CLASS:
        return CLASSES
    if kind_of(manifest) is RESOURCE:
        return Key(metadata["namespace"], metadata["name"])
    labels = metadata.get("labels") or {}
    if kind_of(manifest) is STATEFUL_SET:
        # A StatefulSet has a label with the name of its LeaderWorkerSet. This name is the name of the resource, a
        # hyphen and the revision.
        owner = str(labels.get(GROUP_NAME_LABEL, "")).rpartition("-")[0]
    else:
        owner = labels.get(NAME_LABEL, "")
    return Key(metadata["namespace"], owner) if owner else None


def version_of(manifest: Manifest) -> int:
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
        self.maybe_deleted: set[Key] = set()
        self._families: dict[Key, dict[tuple[Kind, str], Manifest]] = defaultdict(dict)
        self._home: dict[tuple[Kind, str], Key] = {}
        self._gone: dict[str, int] = {}
        self._shares = MemoryShares()

    def put(self, manifest: Mapping[str, Any]) -> Key | None:
        """Store a version of an object. Returns the key of the resource to wake; None if nothing changed."""
        key, kind, uid = key_of(manifest), kind_of(manifest), manifest["metadata"]["uid"]
        if key is None:
            return self._drop(kind, uid)
        home, known = self._home.get((kind, uid)), self.find(manifest)
        # Ignore an old version. A watch may deliver a version that is older than the operator's last write or than the
        # deletion of the object.
        if version_of(manifest) <= max(version_of(known) if known else -1, self._gone.get(uid, -1)):
            return None
        slim = trim_object(kind, manifest)
        # If the object's label now names another resource, remove the object from the previous resource.
        if home not in (None, key):
            self._drop(kind, uid)
        if kind not in _UNLIMITED and not self._shares.reserve(self._holder(key, slim), kind, uid, memory_weight(slim)):
            return self._drop(kind, uid)
        self._families[key][kind, uid] = slim
        self._home[kind, uid] = key
        if kind is RESOURCE and not known:
            self._reassign_shares(key)
        return None if home == key and known and equal_except_version(known, slim) else key

    def remove(self, manifest: Mapping[str, Any]) -> Key | None:
        """Remove a deleted object, and ignore its older versions from now on. Returns the resource to wake."""
        uid = manifest["metadata"]["uid"]
        self._gone[uid] = version_of(manifest)
        # Forget the oldest deletions. A watch is late by seconds at most, so it delivers no old version of an object
        # after 10,000 more deletions.
        while len(self._gone) > 10_000:
            self._gone.pop(next(iter(self._gone)))
        return self._drop(kind_of(manifest), uid)

    def end_list(self, kind: Kind, namespace: str | None, listed: Collection[str], version: int) -> Collection[Key]:
        """Process the end of a list of `kind` at `version`. `listed` are the UIDs of the objects, already stored.

        Returns the resources to wake: no resource while another first list is missing, all resources after the last of
        the first lists, and later the resources whose objects were deleted.
        """
        ghosts = self.remove_missing_objects(kind, namespace, listed, version)
        self.mark_maybe_deleted(kind, *ghosts)
        for key in ghosts:
            log.info(
                "%s %s was deleted while not watched", kind.kind, key, extra={"resource": f"{key.namespace}/{key.name}"}
            )
        first = (kind, namespace) in self.unlisted
        self.unlisted.discard((kind, namespace))
        if self.unlisted:
            return ()
        if not first:
            return ghosts
        # Mark all resources as possibly deleted. The kinds are not listed at the same time, so an owner may have been
        # deleted after its list was read.
        self.maybe_deleted.update(self.resource_keys())
        # Wake all resources. Before the last of the first lists arrived, changes woke no resource.
        return tuple(self._families)

    def mark_maybe_deleted(self, kind: Kind, *keys: Key) -> None:
        """Mark resources that lost an object of `kind`. Pods do not count, because deletions of pods are normal."""
        if kind is not POD:
            self.maybe_deleted.update(key for key in keys if self.resource(key))

    def remove_missing_objects(
        self, kind: Kind, namespace: str | None, listed: Collection[str], version: int
    ) -> set[Key]:
        """Remove objects that are missing in a list of `kind` at `version`. Returns the resources to wake.

        If a watch was broken for a long time, the kind is listed again, and the API server sends no deletion events.
        """
        ghosts = [
            (key, uid)
            for key, family in self._families.items()
            for (each, uid), manifest in family.items()
            if each is kind
            and namespace in (None, key.namespace)
            and uid not in listed
            and version_of(manifest) <= version
        ]
        for _, uid in ghosts:
            self._drop(kind, uid)
        return {key for key, _ in ghosts}

    def get(self, key: Key, kind: Kind, name: str) -> Manifest | None:
        """Return the resource's object with this kind and name; None if there is no such object."""
        return next((each for each in self._objects(key, kind) if each["metadata"]["name"] == name), None)

    def find(self, manifest: Manifest) -> Manifest | None:
        """Return the stored version of an object, found by its UID; None if the object is not stored."""
        of = kind_of(manifest), manifest["metadata"]["uid"]
        home = self._home.get(of)
        return self._families[home].get(of) if home else None

    def gate_is_open(self, key: Key, uid: str) -> bool:
        """Return True if the gate of the resource's pod with that UID is open; False if there is no such pod."""
        return gate_status(self._families.get(key, {}).get((POD, uid)) or {}) == "True"

    def resource(self, key: Key) -> Manifest | None:
        """Return the GaudiInference with this key; None if the GaudiInference is not stored."""
        return next(iter(self._objects(key, RESOURCE)), None)

    def count_resources(self) -> int:
        """Return the number of resources. Safe to call from another thread."""
        return sum(kind is RESOURCE for kind, _ in list(self._home))

    def all_resources(self) -> list[Manifest]:
        """Return every resource. Safe to call from another thread, because dictionaries are copied in one step."""
        families = list(self._families.values())
        return [each for family in families for (kind, _), each in list(family.items()) if kind is RESOURCE]

    def resource_keys(self) -> tuple[Key, ...]:
        """Return the keys of all resources."""
        return tuple(key for (kind, _), key in self._home.items() if kind is RESOURCE)

    def any_resource(self, holds: Callable[[Manifest], bool]) -> bool:
        """Return True if `holds` returns True for any resource."""
        found = (self.resource(key) for key in self._families)
        return any(holds(each) for each in found if each is not None)

    def observe(
        self, key: Key, reports: Mapping[str, PodReport], now: datetime, status_written: datetime | None = None
    ) -> Observed | None:
        """Return the snapshot of a resource with the objects that it owns; None if the resource does not exist."""
        resource = self.resource(key)
        if resource is None:
            return None
        owner = {resource["metadata"]["uid"]}
        replica_sets = _select_owned(self._objects(key, REPLICA_SET), owner)
        groups = _select_owned(self._objects(key, LEADER_WORKER_SET), owner)
        leaders, workers = _leaders_and_workers(self._objects(key, POD), self._objects(key, STATEFUL_SET), groups)
        pods = (*_select_owned(self._objects(key, POD), _uids(replica_sets)), *leaders)
        return Observed(
            resource=resource,
            revisions=_select_owned(self._objects(key, CONTROLLER_REVISION), owner),
            replica_sets=replica_sets,
            leader_worker_sets=groups,
            pods=pods,
            workers=workers,
            services=_select_owned(self._objects(key, SERVICE), owner),
            config_maps=_select_owned(self._objects(key, CONFIG_MAP), owner),
            service_accounts=_select_owned(self._objects(key, SERVICE_ACCOUNT), owner),
            pvcs=_sort_by_name(
                each
                for each in self._objects(key, PVC)
                if is_controlled_by(each, resource["metadata"]["uid"]) or is_retained(each)
            ),
            pod_disruption_budgets=_select_owned(self._objects(key, DISRUPTION_BUDGET), owner),
            network_policies=_select_owned(self._objects(key, NETWORK_POLICY), owner),
            autoscalers=_select_owned(self._objects(key, AUTOSCALER), owner),
            reports={uid: reports[uid] for pod in pods if (uid := pod["metadata"]["uid"]) in reports},
            now=now,
            status_written=status_written,
            groups_served=self.groups_served,
            classes=_sort_by_name(self._objects(CLASSES, CLASS)),
        )

    def _objects(self, key: Key, kind: Kind) -> list[Manifest]:
        return [each for (of_kind, _), each in self._families.get(key, {}).items() if of_kind is kind]

    def _holder(self, key: Key, manifest: Manifest) -> Key | None:
        """Return the holder of the memory share for an object; None if no existing resource owns the object."""
        resource, owner = self.resource(key), _controller(manifest).get("uid")
        if resource is None:
            return None
        # Workloads control pods and StatefulSets, and a retained PVC has no controller. The resource must control all
        # other objects.
        made = kind_of(manifest) in (POD, STATEFUL_SET) or owner in (None, resource["metadata"]["uid"])
        return key if made else None

    def _reassign_shares(self, key: Key) -> None:
        """Move the objects of a resource to other memory shares after the resource was created or deleted."""
        for (kind, uid), each in tuple(self._families.get(key, {}).items()):
            if kind in _UNLIMITED:
                continue
            if not self._shares.reserve(self._holder(key, each), kind, uid, self._shares.weight_of(kind, uid)):
                self._drop(kind, uid)

    def _drop(self, kind: Kind, uid: str) -> Key | None:
        self._shares.release(kind, uid)
        key = self._home.pop((kind, uid), None)
        if key:
            del self._families[key][kind, uid]
            if not self._families[key]:
                del self._families[key]
            if kind is RESOURCE:
                self.maybe_deleted.discard(key)
                self._reassign_shares(key)
        return key


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Return True if `uid` is the UID of the controller of a stored object."""
    return bool(_controller(manifest).get("uid") == uid)


def is_retained(manifest: Manifest) -> bool:
    """Return True if a stored object is a PVC that outlives its resource.

    The next resource with the same name adopts this PVC.
    """
    labels = manifest["metadata"].get("labels") or {}
    unowned = kind_of(manifest) is PVC and not _controller(manifest)
    return unowned and labels.get(MANAGED_BY_LABEL) == MANAGED_BY


def _select_owned(manifests: Iterable[Manifest], owners: Collection[str]) -> tuple[Manifest, ...]:
    """Return the objects whose controller is among `owners`, sorted by name for deterministic reconciles."""
    return _sort_by_name(each for each in manifests if _controller(each).get("uid") in owners)


def _leaders_and_workers(
    pods: Iterable[Manifest], stateful_sets: Sequence[Manifest], groups: Sequence[Manifest]
) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...]]:
    """Return the leaders and the workers of LeaderWorkerSets, sorted by name.

    A LeaderWorkerSet owns a StatefulSet of leaders, and each leader owns a StatefulSet of its workers. Each owner is
    found by UID, because any client can create a pod with these labels and with arbitrary owner references.
    """
    labelled = [pod for pod in pods if WORKER_INDEX_LABEL in pod["metadata"]["labels"]]
    leaders = _select_owned(
        (pod for pod in labelled if _leads(pod)), _uids(_select_owned(stateful_sets, _uids(groups)))
    )
    of_workers = _uids(_select_owned(stateful_sets, _uids(leaders)))
    names = {each["metadata"]["name"] for each in groups}
    workers = _sort_by_name(
        pod
        for pod in labelled
        if not _leads(pod) and (_controller(pod).get("uid") in of_workers or _is_terminating_member(pod, names))
    )
    return leaders, workers


def _is_terminating_member(pod: Manifest, groups: Collection[str]) -> bool:
    """Return True if a pod of these groups is terminating. A worker may hold cards even after its leader is deleted."""
    metadata = pod["metadata"]
    return "deletionTimestamp" in metadata and metadata["labels"].get(GROUP_NAME_LABEL) in groups


def _uids(manifests: Iterable[Manifest]) -> set[str]:
    return {each["metadata"]["uid"] for each in manifests}


def _leads(pod: Manifest) -> bool:
    return bool(pod["metadata"]["labels"].get(WORKER_INDEX_LABEL) == "0")


def _sort_by_name(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    return tuple(sorted(manifests, key=lambda each: str(each["metadata"]["name"])))


def _controller(manifest: Manifest) -> Mapping[str, Any]:
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), {})
