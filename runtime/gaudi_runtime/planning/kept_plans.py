"""The plans that were made last, kept within bounds: several questions are asked about the same plan."""

import sys
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.planner import make_plan

BYTES_PER_BUCKET = 120
"""Measured: a tuple, its place in the plan and in the index of the plan; the numbers are shared."""

SMALL = 16 * 1024
"""More bytes than the arguments of an error and a key take, without the texts of the policy."""

MOST_BYTES = 64 * 2**20
"""Room for one plan of the most buckets, or hundreds of common ones."""

Key = tuple[BucketPolicy, Limits, int]
Found = BucketPlan | tuple[str, ...]
"""A plan, or the arguments of the PlanImpossible. The exception itself would keep all that the planner held."""


class KeptPlans:
    """Plans that `make` has made, up to `most_bytes`; the plan that was used least recently is removed first."""

    def __init__(self, most_bytes: int = MOST_BYTES, make: Callable[..., BucketPlan] = make_plan) -> None:
        self._most_bytes, self._make = most_bytes, make
        self._bytes = 0
        self._kept: OrderedDict[Key, tuple[Found, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
        """Return the plan, made now or earlier. Raises PlanImpossible with the planner's sentence."""
        key = policy, limits, kv_blocks
        # One plan at a time: several at once would end no sooner, and take the memory of all.
        with self._lock:
            if key not in self._kept:
                self._keep(key, self._found(key))
            self._kept.move_to_end(key)
            found, _ = self._kept[key]
        if isinstance(found, tuple):
            raise PlanImpossible(*found)
        return found

    def _found(self, key: Key) -> Found:
        try:
            return self._make(*key)
        except PlanImpossible as error:
            return error.args

    def _keep(self, key: Key, found: Found) -> None:
        size = _bytes_of(found, key[0])
        self._kept[key] = found, size
        self._bytes += size
        # A plan that is larger than all room stays alone.
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed


def _bytes_of(found: Found, policy: BucketPolicy) -> int:
    buckets = 0 if isinstance(found, tuple) else len(found.prompt) + len(found.decode)
    texts = policy.file, policy.optimal and policy.optimal.traffic
    return SMALL + sum(map(sys.getsizeof, texts)) + BYTES_PER_BUCKET * buckets


kept_plan = KeptPlans().get
"""The plan of a policy for a device with so many KV blocks, as make_plan() makes it."""
