"""A bounded cache of the last bucket plans, because several callers need the same plan."""

import sys
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.planner import make_plan

BYTES_PER_BUCKET = 120
"""The measured bytes of a bucket: a tuple, and its entries in the plan and in the index. Its numbers are shared."""

SMALL = 16 * 1024
"""An upper bound for the bytes of a key and of an error's arguments, without the texts of the policy."""

MOST_BYTES = 64 * 2**20
"""The size of the cache: one plan with the most buckets, or hundreds of common plans."""

Key = tuple[BucketPolicy, Limits, int]
Found = BucketPlan | tuple[str, ...]
"""A plan, or the arguments of PlanImpossible. The exception itself would keep the planner's memory alive."""


class PlanCache:
    """A cache of plans that `make` creates, up to `most_bytes`. The least recently used plan is evicted first."""

    def __init__(self, most_bytes: int = MOST_BYTES, make: Callable[..., BucketPlan] = make_plan) -> None:
        self._most_bytes, self._make = most_bytes, make
        self._bytes = 0
        self._kept: OrderedDict[Key, tuple[Found, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
        """Return the plan from the cache, or make it. Raises PlanImpossible with the message of the planner."""
        key = policy, limits, kv_blocks
        # The lock allows one plan at a time. Concurrent plans would not finish sooner, and each plan would need its
        # memory at the same time.
        with self._lock:
            if key not in self._kept:
                self._store(key, self._plan_or_error(key))
            self._kept.move_to_end(key)
            found, _ = self._kept[key]
        if isinstance(found, tuple):
            raise PlanImpossible(*found)
        return found

    def _plan_or_error(self, key: Key) -> Found:
        try:
            return self._make(*key)
        except PlanImpossible as error:
            return error.args

    def _store(self, key: Key, found: Found) -> None:
        size = _estimate_bytes(found, key[0])
        self._kept[key] = found, size
        self._bytes += size
        # The newest plan stays in the cache even if this plan alone exceeds the limit.
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed


def _estimate_bytes(found: Found, policy: BucketPolicy) -> int:
    buckets = 0 if isinstance(found, tuple) else len(found.prompt) + len(found.decode)
    texts = policy.file, policy.optimal and policy.optimal.traffic
    return SMALL + sum(map(sys.getsizeof, texts)) + BYTES_PER_BUCKET * buckets


kept_plan = PlanCache().get
"""Returns the plan of a policy for a device with `kv_blocks`, like make_plan(), from the cache."""
