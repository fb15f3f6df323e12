"""The memory that objects of one resource may take: any client that creates objects can set our label.

What is kept is weighed as Python holds it. Objects whose owner does not exist share one share among them all, so that
labels and owner references that name nothing cost no more than one resource does.
"""

import logging
from collections import defaultdict
from collections.abc import Hashable
from sys import getsizeof
from typing import Any

from gaudi_operator.shell.kinds import POD, Kind

OBJECT_BYTES = 2 * 2**20
"""Largest weight of one object: the largest spec makes a ControllerRevision of a little more than half of it."""

SHARE_BYTES = 16 * 2**20
"""Largest weight of the objects of one resource without its pods: 100 revisions of a large spec fit."""

PODS_BYTES = 64 * 2**20
"""Largest weight of the pods of one resource: 2,000 fit."""

log = logging.getLogger(__name__)


def weight(value: Any, most: int = OBJECT_BYTES) -> int:
    """Bytes of a value read from JSON. Counting stops above `most`."""
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


class Shares:
    """Weights of objects, counted by the holder of each."""

    def __init__(self) -> None:
        """Nothing is held."""
        self._held: dict[tuple[Hashable, bool], int] = defaultdict(int)
        self._objects: dict[tuple[Kind, str], tuple[Hashable, int]] = {}
        self._full: set[tuple[Hashable, bool]] = set()

    def take(self, holder: Hashable, kind: Kind, uid: str, weighs: int) -> bool:
        """Count an object that `holder` has from now on. Return False, and count nothing, if its share is full."""
        self.give_back(kind, uid)
        share, most = (holder, kind is POD), PODS_BYTES if kind is POD else SHARE_BYTES
        if self._held[share] + weighs > most:
            self._log_once(share, kind, most)
            return False
        self._held[share] += weighs
        self._objects[kind, uid] = holder, weighs
        return True

    def weight_of(self, kind: Kind, uid: str) -> int:
        """The weight of an object that is held."""
        return self._objects[kind, uid][1]

    def give_back(self, kind: Kind, uid: str) -> None:
        """The object is held no more."""
        holder, weighs = self._objects.pop((kind, uid), (None, 0))
        share = (holder, kind is POD)
        if not weighs:
            return
        self._held[share] -= weighs
        if not self._held[share]:
            del self._held[share]
            self._full.discard(share)

    def _log_once(self, share: tuple[Hashable, bool], kind: Kind, most: int) -> None:
        if share in self._full:
            return
        self._full.add(share)
        log.warning(
            "Objects with the label of GaudiInference %s take more than %d MiB. A %s is ignored: delete objects with"
            " that label that the operator did not make.",
            share[0],
            most // 2**20,
            kind.kind,
        )
