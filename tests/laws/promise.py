"""The numbers of pods that spec.replicas and spec.rollout guarantee.

See docs/how-to/revisions.md, From one revision to the next.

This module repeats the arithmetic of the operator. Laws that import the operator's code could not find an error in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any


@dataclass(frozen=True)
class Promise:
    """The guarantee that at least `floor` pods serve and at most `ceiling` pods are desired.

    With `in_place`, terminating pods also count as desired. `without_room` is the floor after a new pod has found no
    room, or None if the rollout waits for room.
    """

    floor: int
    ceiling: int
    in_place: bool
    without_room: int | None


def promise(spec: Mapping[str, Any]) -> Promise:
    """Return the guarantee of a spec. `spec` is the field of a manifest."""
    replicas, rollout = spec.get("replicas", 1), spec.get("rollout", {})
    kind = rollout.get("type") or "SurgeThenInPlace"
    given = rollout.get("maxUnavailable")
    missing = int(_pods(given or 0, replicas))
    in_place = max(0, replicas - max(1, missing))
    if kind == "InPlace":
        return Promise(in_place, replicas, True, in_place)
    may_miss_one = replicas > 1 if given is None else missing > 0
    surge = ceil(_pods(rollout.get("maxSurge", 1), replicas))
    without_room = in_place if kind == "SurgeThenInPlace" and may_miss_one else None
    return Promise(max(0, replicas - missing), replicas + surge, False, without_room)


def _pods(amount: int | str, replicas: int) -> float:
    return amount if isinstance(amount, int) else int(amount.removesuffix("%")) * replicas / 100
