"""What the watches have shown and our own writes have answered: the newest version of every object wins.

A write's answer goes in here at once. Without that, the next reconcile would decide on a picture from before the
write and do it twice.
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
from gaudi_operator.shell.watching.shares import Shares, weight
from gaudi_operator.shell.watching.trimmed import same_but_for_version, trimmed

log = logging.getLogger(__name__)


class Key(NamedTuple):
    """Names one GaudiInference."""

    namespace: str
    name: str


CLASSES = Key("", "")
"""What classes are kept under, in place of a resource: they count for all."""


_UNLIMITED = frozenset({RESOURCE, CLASS})
"""Kinds whose size is bounded by their schema, and that only users of the operator may create."""


def key_of(manifest: Manifest) -> Key | None:
    """The resource that an object belongs to by its label, or is; None for a stranger."""
    metadata = manifest["metadata"]
    if kind_of(manifest) is CLASS:
        return CLASSES
    if kind_of(manifest) is RESOURCE:
        return Key(metadata["namespace"], metadata["name"])
    labels = metadata.get("labels") or {}
    if kind_of(manifest) is STATEFUL_SET:
        # The controller of LeaderWorkerSets gives it the name of one, which we have made of a resource and a revision.
        owner = str(labels.get(GROUP_NAME_LABEL, "")).rpartition("-")[0]
    else:
        owner = labels.get(NAME_LABEL, "")
    return Key(metadata["namespace"], owner) if owner else None


def version_of(manifest: Manifest) -> int:
    """The resource version; the API server promises that versions of one kind can be compared as numbers."""
    return int(manifest["metadata"]["resourceVersion"])


class Store:
    """Objects of all watched kinds, grouped by the resource that they belong to.

    `groups_served` is whether LeaderWorkerSets are among them. `unlisted` are the collections, a kind in a namespace or
    in all, whose first list is still to come: while there are any, what is missing may only be unknown. `doubted` are
    the resources of which something has vanished, or may have before we looked: they may be gone themselves.
    """

    def __init__(self) -> None:
        """Empty: nothing was seen yet."""
        self.groups_served = False
        self.unlisted: set[tuple[Kind, str | None]] = set()
        self.doubted: set[Key] = set()
        self._families: dict[Key, dict[tuple[Kind, str], Manifest]] = defaultdict(dict)
        self._home: dict[tuple[Kind, str], Key] = {}
        self._gone: dict[str, int] = {}
        self._shares = Shares()

    def put(self, manifest: Mapping[str, Any]) -> Key | None:
        """Take a version of an object in; returns the resource to wake, None when it says nothing new."""
        key, kind, uid = key_of(manifest), kind_of(manifest), manifest["metadata"]["uid"]
        if key is None:
            return self._drop(kind, uid)
        home, known = self._home.get((kind, uid)), self.find(manifest)
        # A watch may bring a version from before our own write, or from before the deletion.
        if version_of(manifest) <= max(version_of(known) if known else -1, self._gone.get(uid, -1)):
            return None
        slim = trimmed(kind, manifest)
        # Somebody has changed the label that says whose it is.
        if home not in (None, key):
            self._drop(kind, uid)
        if kind not in _UNLIMITED and not self._shares.take(self._holder(key, slim), kind, uid, weight(slim)):
            return self._drop(kind, uid)
        self._families[key][kind, uid] = slim
        self._home[kind, uid] = key
        if kind is RESOURCE and not known:
            self._settle(key)
        return None if home == key and known and same_but_for_version(known, slim) else key

    def remove(self, manifest: Mapping[str, Any]) -> Key | None:
        """Forget a deleted object, and do not let an older version of it come back. Returns the resource to wake."""
        uid = manifest["metadata"]["uid"]
        self._gone[uid] = version_of(manifest)
        # Watches are seconds late and not hours: the oldest of so many cannot come back.
        while len(self._gone) > 10_000:
            self._gone.pop(next(iter(self._gone)))
        return self._drop(kind_of(manifest), uid)

    def end_list(self, kind: Kind, namespace: str | None, listed: Collection[str], version: int) -> Collection[Key]:
        """Note that a list of `kind` at `version` has come to its end; `listed` are the UIDs of its objects, which were
        put before. Returns the resources to wake: none while another list is missing, all once the last of the first
        lists is there, later those of which something has vanished.
        """
        ghosts = self.sweep(kind, namespace, listed, version)
        self.doubt(kind, *ghosts)
        for key in ghosts:
            log.info("%s %s vanished unseen", kind.kind, key, extra={"resource": f"{key.namespace}/{key.name}"})
        first = (kind, namespace) in self.unlisted
        self.unlisted.discard((kind, namespace))
        if self.unlisted:
            return ()
        if not first:
            return ghosts
        # Lists are of different moments: who is in one may be gone in the next.
        self.doubted.update(self.served())
        # All of them: what changed before the last first list woke nobody.
        return tuple(self._families)

    def doubt(self, kind: Kind, *keys: Key) -> None:
        """An object of these resources has vanished. Pods do so all the time, and all do whose resource is gone."""
        if kind is not POD:
            self.doubted.update(key for key in keys if self.resource(key))

    def sweep(self, kind: Kind, namespace: str | None, listed: Collection[str], version: int) -> set[Key]:
        """Forget what a list of `kind` at `version` no longer holds; returns the resources to wake.

        A watch that was broken for long is replaced by a list, and no event then comes for deletions.
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
        """The object of that name that belongs to the resource."""
        return next((each for each in self._of(key, kind) if each["metadata"]["name"] == name), None)

    def find(self, manifest: Manifest) -> Manifest | None:
        """The object of the same UID as it was seen last."""
        of = kind_of(manifest), manifest["metadata"]["uid"]
        home = self._home.get(of)
        return self._families[home].get(of) if home else None

    def gate_is_open(self, key: Key, uid: str) -> bool:
        """Whether the pod of the resource with that UID takes traffic as far as its gate goes; False without it."""
        return gate_status(self._families.get(key, {}).get((POD, uid)) or {}) == "True"

    def resource(self, key: Key) -> Manifest | None:
        """The resource itself."""
        return next(iter(self._of(key, RESOURCE)), None)

    def resources(self) -> int:
        """How many resources exist. May be called in another thread, as `all_resources`."""
        return sum(kind is RESOURCE for kind, _ in list(self._home))

    def all_resources(self) -> list[Manifest]:
        """Every resource. May be called in another thread: the lists are made in one step each."""
        families = list(self._families.values())
        return [each for family in families for (kind, _), each in list(family.items()) if kind is RESOURCE]

    def served(self) -> tuple[Key, ...]:
        """Names of all resources that exist."""
        return tuple(key for (kind, _), key in self._home.items() if kind is RESOURCE)

    def any_resource(self, holds: Callable[[Manifest], bool]) -> bool:
        """Whether there is a resource of that kind."""
        found = (self.resource(key) for key in self._families)
        return any(holds(each) for each in found if each is not None)

    def observe(
        self, key: Key, reports: Mapping[str, PodReport], now: datetime, status_written: datetime | None = None
    ) -> Observed | None:
        """The snapshot of a resource that exists, with what it owns and nothing else."""
        resource = self.resource(key)
        if resource is None:
            return None
        owner = {resource["metadata"]["uid"]}
        replica_sets = _owned(self._of(key, REPLICA_SET), owner)
        groups = _owned(self._of(key, LEADER_WORKER_SET), owner)
        leaders, workers = _members(self._of(key, POD), self._of(key, STATEFUL_SET), groups)
        pods = (*_owned(self._of(key, POD), _uids(replica_sets)), *leaders)
        return Observed(
            resource=resource,
            revisions=_owned(self._of(key, CONTROLLER_REVISION), owner),
            replica_sets=replica_sets,
            leader_worker_sets=groups,
            pods=pods,
            workers=workers,
            services=_owned(self._of(key, SERVICE), owner),
            config_maps=_owned(self._of(key, CONFIG_MAP), owner),
            service_accounts=_owned(self._of(key, SERVICE_ACCOUNT), owner),
            pvcs=_by_name(
                each
                for each in self._of(key, PVC)
                if controlled_by(each, resource["metadata"]["uid"]) or is_retained(each)
            ),
            pod_disruption_budgets=_owned(self._of(key, DISRUPTION_BUDGET), owner),
            network_policies=_owned(self._of(key, NETWORK_POLICY), owner),
            autoscalers=_owned(self._of(key, AUTOSCALER), owner),
            reports={uid: reports[uid] for pod in pods if (uid := pod["metadata"]["uid"]) in reports},
            now=now,
            status_written=status_written,
            groups_served=self.groups_served,
            classes=_by_name(self._of(CLASSES, CLASS)),
        )

    def _of(self, key: Key, kind: Kind) -> list[Manifest]:
        return [each for (of_kind, _), each in self._families.get(key, {}).items() if of_kind is kind]

    def _holder(self, key: Key, manifest: Manifest) -> Key | None:
        """Whose share an object counts against; None if no resource that exists has made it."""
        resource, owner = self.resource(key), _controller(manifest).get("uid")
        if resource is None:
            return None
        # Pods and their StatefulSets are controlled by workloads, and a retained PVC by nothing.
        made = kind_of(manifest) in (POD, STATEFUL_SET) or owner in (None, resource["metadata"]["uid"])
        return key if made else None

    def _settle(self, key: Key) -> None:
        """Count the objects of a resource that has come, or is gone, against the right share."""
        for (kind, uid), each in tuple(self._families.get(key, {}).items()):
            if kind in _UNLIMITED:
                continue
            if not self._shares.take(self._holder(key, each), kind, uid, self._shares.weight_of(kind, uid)):
                self._drop(kind, uid)

    def _drop(self, kind: Kind, uid: str) -> Key | None:
        self._shares.give_back(kind, uid)
        key = self._home.pop((kind, uid), None)
        if key:
            del self._families[key][kind, uid]
            if not self._families[key]:
                del self._families[key]
            if kind is RESOURCE:
                self.doubted.discard(key)
                self._settle(key)
        return key


def controlled_by(manifest: Manifest, uid: str) -> bool:
    """Whether the object with that UID is its controller."""
    return bool(_controller(manifest).get("uid") == uid)


def is_retained(manifest: Manifest) -> bool:
    """Whether it was made to outlive its resource: the next one of that name takes it over."""
    labels = manifest["metadata"].get("labels") or {}
    unowned = kind_of(manifest) is PVC and not _controller(manifest)
    return unowned and labels.get(MANAGED_BY_LABEL) == MANAGED_BY


def _owned(manifests: Iterable[Manifest], owners: Collection[str]) -> tuple[Manifest, ...]:
    """Those whose controller is among `owners`, by name so that a reconcile does not depend on chance."""
    return _by_name(each for each in manifests if _controller(each).get("uid") in owners)


def _members(
    pods: Iterable[Manifest], stateful_sets: Sequence[Manifest], groups: Sequence[Manifest]
) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...]]:
    """The leaders and the other pods of LeaderWorkerSets, by name.

    A LeaderWorkerSet owns a StatefulSet of leaders, and each leader owns one of its workers. Labels prove nothing, and
    references of a pod are written by its creator, so each step is resolved by UID.
    """
    labelled = [pod for pod in pods if WORKER_INDEX_LABEL in pod["metadata"]["labels"]]
    leaders = _owned((pod for pod in labelled if _leads(pod)), _uids(_owned(stateful_sets, _uids(groups))))
    of_workers = _uids(_owned(stateful_sets, _uids(leaders)))
    names = {each["metadata"]["name"] for each in groups}
    workers = _by_name(
        pod
        for pod in labelled
        if not _leads(pod) and (_controller(pod).get("uid") in of_workers or _ends_without_leader(pod, names))
    )
    return leaders, workers


def _ends_without_leader(pod: Manifest, groups: Collection[str]) -> bool:
    """Whether a worker still holds its cards, although its leader and its StatefulSet are gone. It gets no gate."""
    metadata = pod["metadata"]
    return "deletionTimestamp" in metadata and metadata["labels"].get(GROUP_NAME_LABEL) in groups


def _uids(manifests: Iterable[Manifest]) -> set[str]:
    return {each["metadata"]["uid"] for each in manifests}


def _leads(pod: Manifest) -> bool:
    return bool(pod["metadata"]["labels"].get(WORKER_INDEX_LABEL) == "0")


def _by_name(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    return tuple(sorted(manifests, key=lambda each: str(each["metadata"]["name"])))


def _controller(manifest: Manifest) -> Mapping[str, Any]:
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), {})
