"""Memory shares, which limit the memory for the objects of one resource.

The limit is needed because any client can set the operator's label. The weight of an object is its size in Python. All
objects whose owner does not exist have one common share. Together, they take no more memory than one resource.
"""

import logging
from collections import defaultdict
from collections.abc import Hashable
from sys import getsizeof
from typing import Any

from gaudi_operator.shell.kinds import POD, Kind

OBJECT_BYTES = 2 * 2**20
"""The maximum weight of one object. The ControllerRevision of the largest spec has slightly more than half of it."""

SHARE_BYTES = 16 * 2**20
"""The maximum weight of one resource's objects without pods, enough for 100 revisions of a large spec."""

PODS_BYTES = 64 * 2**20
"""The maximum weight of one resource's pods, enough for 2,000 pods."""

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


class MemoryShares:
    """The memory shares: for each holder, the sum of the weights of its objects."""

    def __init__(self) -> None:
        """Create empty shares."""
        self._weights: dict[tuple[Hashable, bool], int] = defaultdict(int)
        self._objects: dict[tuple[Kind, str], tuple[Hashable, int]] = {}
        self._full_shares: set[tuple[Hashable, bool]] = set()

    def reserve(self, holder: Hashable, kind: Kind, uid: str, weight: int) -> bool:
        """Count an object for `holder`. Returns False without counting the object if the share is full."""
        self.release(kind, uid)
        share, limit = (holder, kind is POD), PODS_BYTES if kind is POD else SHARE_BYTES
        if self._weights[share] + weight > limit:
            self._log_full_once(share, kind, limit)
            return False
        self._weights[share] += weight
        self._objects[kind, uid] = holder, weight
        return True

    def weight_of(self, kind: Kind, uid: str) -> int:
        """Return the weight of an object that is in a share."""
        return self._objects[kind, uid][1]

    def release(self, kind: Kind, uid: str) -> None:
        """Remove an object from its share."""
        holder, weight = self._objects.pop((kind, uid), (None, 0))
        share = (holder, kind is POD)
        if not weight:
            return
        self._weights[share] -= weight
        if not self._weights[share]:
            del self._weights[share]
            self._full_shares.discard(share)

    def _log_full_once(self, share: tuple[Hashable, bool], kind: Kind, limit: int) -> None:
        if share in self._full_shares:
            return
        self._full_shares.add(share)
        log.warning(
            "The objects with the label of GaudiInference %s take more than %d MiB of memory, so the operator "
            "ignores a %s. Delete objects that have this label but were not created by the operator.",
            share[0],
            limit // 2**20,
            kind.kind,
        )
