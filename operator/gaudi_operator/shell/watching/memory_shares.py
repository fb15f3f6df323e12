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


def memory_weight(value: Any, most: int = OBJECT_BYTES) -> int:
    """Return the weight of an object, which is the size of all its values in bytes. Counting stops above `most`."""
    found, left = 0, [value]
    while left and found <= most:
        each = left.pop()
        found += getsizeof(each)
        if found > most:
            break
        if isinstance(each, dict):
            left.extend(each)
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
    return found


class MemoryShares:
    """The memory shares: for each holder, the sum of the weights of its objects."""

    def __init__(self) -> None:
        """Create empty shares."""
        self._held: dict[tuple[Hashable, bool], int] = defaultdict(int)
        self._objects: dict[tuple[Kind, str], tuple[Hashable, int]] = {}
        self._full: set[tuple[Hashable, bool]] = set()

    def reserve(self, holder: Hashable, kind: Kind, uid: str, weighs: int) -> bool:
        """Count an object for `holder`. Returns False without counting the object if the share is full."""
        self.release(kind, uid)
        share, most = (holder, kind is POD), PODS_BYTES if kind is POD else SHARE_BYTES
        if self._held[share] + weighs > most:
            self._log_full_once(share, kind, most)
            return False
        self._held[share] += weighs
        self._objects[kind, uid] = holder, weighs
        return True

    def weight_of(self, kind: Kind, uid: str) -> int:
        """Return the weight of an object that is in a share."""
        return self._objects[kind, uid][1]

    def release(self, kind: Kind, uid: str) -> None:
        """Remove an object from its share."""
        holder, weighs = self._objects.pop((kind, uid), (None, 0))
        share = (holder, kind is POD)
        if not weighs:
            return
        self._held[share] -= weighs
        if not self._held[share]:
            del self._held[share]
            self._full.discard(share)

    def _log_full_once(self, share: tuple[Hashable, bool], kind: Kind, most: int) -> None:
        if share in self._full:
            return
        self._full.add(share)
        log.warning(
            "The objects with the label of GaudiInference %s take more than %d MiB of memory, so the operator "
            "ignores a %s. Delete objects that have this label but were not created by the operator.",
            share[0],
            most // 2**20,
            kind.kind,
        )
