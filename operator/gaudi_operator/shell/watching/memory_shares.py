"""Memory shares, which limit the memory for stored objects: per resource, per namespace and in total.

The limits are needed because any client can set the operator's label. The weight of an object is its size in Python.
All objects whose owner does not exist have one common share. Together, they take no more memory than one resource.

The store keeps pod templates as compressed JSON (trimmed_objects.py), and a decision decodes all templates of one
resource. Therefore the share of a resource counts decoded objects. Namespaces and the total count stored objects.
"""

import logging
from collections import Counter
from sys import getsizeof
from typing import Any, NamedTuple

from gaudi_operator.shell.kinds import POD, RESOURCE, Kind

OBJECT_BYTES = 2 * 2**20
"""The maximum weight of one child. The ControllerRevision of the largest spec has slightly more than half of it."""

RESOURCE_BYTES = 2**20
"""The maximum weight of one GaudiInference. An ordinary one weighs 22 KiB, the largest spec of the tests 260 KiB.

A parsed spec takes 1.3 times this weight (measured), and 64 parsed specs are cached (leader.py): 83 MiB at most.
"""

SHARE_BYTES = 16 * 2**20
"""The maximum weight of one resource's other objects without pods, enough for 100 revisions of a large spec."""

PODS_BYTES = 64 * 2**20
"""The maximum weight of one resource's pods, enough for 2,000 pods."""

ALL_BYTES = 224 * 2**20
"""The maximum weight of all objects, enough for 1,000 resources with six revisions and ten pods each.

Such a resource weighs 200 KiB, and takes half of that because of shared strings (measured). The chart limits the
operator to 512 MiB: 224 MiB of objects, 55 MiB without resources, 83 MiB of parsed specs, and the rest for a decision
and for incoming objects. Hostile objects take up to 1.2 times their weight.
"""

NAMESPACE_BYTES = ALL_BYTES // 2
"""The maximum weight of the objects of one namespace, so that one namespace leaves half of the memory to all others."""

log = logging.getLogger(__name__)


def memory_weight(value: Any, limit: int = OBJECT_BYTES) -> int:
    """Return the weight of an object, which is the size of all its values in bytes. Counting stops above `limit`."""
    weight, pending_values = 0, [value]
    while pending_values and weight <= limit:
        item = pending_values.pop()
        weight += getsizeof(item)
        if weight > limit:
            break
        if isinstance(item, dict):
            pending_values.extend(item)
            pending_values.extend(item.values())
        elif isinstance(item, list):
            pending_values.extend(item)
    return weight


class MemoryWeight(NamedTuple):
    """The weight of an object while a decision reads it, and in the store."""

    decoded: int
    stored: int


class MemoryShares:
    """The memory shares: for each share, the sum of the weights of its objects."""

    def __init__(self) -> None:
        """Create empty shares."""
        self._weights = Counter[str]()
        self._objects: dict[tuple[Kind, str], tuple[str, str | None, MemoryWeight]] = {}
        self._full_shares: set[str] = set()

    def reserve(self, namespace: str, owner: str | None, kind: Kind, uid: str, weight: MemoryWeight) -> bool:
        """Count an object for its owner, its namespace and the total. `owner` is the name of a GaudiInference.

        Returns False without counting the object if one of these shares is full.
        """
        self.release(kind, uid)
        shares = _shares(namespace, owner, kind, uid, weight)
        for share, added, limit in shares:
            if self._weights[share] + added > limit:
                self._log_full(share, limit, kind, f"{namespace}/{owner}")
                return False
        self._objects[kind, uid] = namespace, owner, weight
        for share, added, _ in shares:
            self._weights[share] += added
        return True

    def weight_of(self, kind: Kind, uid: str) -> MemoryWeight:
        """Return the weight of an object that is in a share."""
        return self._objects[kind, uid][2]

    def release(self, kind: Kind, uid: str) -> None:
        """Remove an object from its shares."""
        if (kind, uid) not in self._objects:
            return
        namespace, owner, weight = self._objects.pop((kind, uid))
        for share, added, _ in _shares(namespace, owner, kind, uid, weight):
            self._weights[share] -= added
            if not self._weights[share]:
                del self._weights[share]
                self._full_shares.discard(share)

    def _log_full(self, share: str, limit: int, kind: Kind, owner: str) -> None:
        """Log that an object is ignored: each GaudiInference, and one child until the share is empty."""
        ignored, extra = f"a {kind.kind}", {}
        if kind is RESOURCE:
            ignored, extra = (
                f"{kind.kind} {owner} until it changes, and its gates stay as they are",
                {"resource": owner},
            )
        elif share in self._full_shares:
            return
        else:
            self._full_shares.add(share)
        log.warning(
            "The %s take more than %d MiB of memory, so the operator ignores %s. Delete objects that the operator did "
            "not create, or make them smaller.",
            *(share, limit // 2**20, ignored),
            extra=extra,
        )


def _shares(
    namespace: str, owner: str | None, kind: Kind, uid: str, weight: MemoryWeight
) -> tuple[tuple[str, int, int], ...]:
    """Return the shares of an object: (description of the share, weight of this object, limit)."""
    holder = f"GaudiInference {namespace}/{owner}" if owner else "GaudiInferences that do not exist"
    own_shares = {
        RESOURCE: (f"fields of {holder} ({uid})", RESOURCE_BYTES),
        POD: (f"pods with the label of {holder}", PODS_BYTES),
    }
    description, limit = own_shares.get(kind, (f"objects with the label of {holder}", SHARE_BYTES))
    return (
        (description, weight.decoded, limit),
        (f"objects of namespace {namespace}", weight.stored, NAMESPACE_BYTES),
        ("objects of all namespaces", weight.stored, ALL_BYTES),
    )
