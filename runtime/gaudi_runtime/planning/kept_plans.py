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
PlanOrError = BucketPlan | tuple[str, ...]
"""A plan, or the arguments of PlanImpossible. The exception itself would keep the planner's memory alive."""


class KeptPlans:
    """A cache of plans that `make` creates, up to `max_bytes`. The least recently used plan is evicted first."""

    def __init__(self, max_bytes: int = MOST_BYTES, make: Callable[..., BucketPlan] = make_plan) -> None:
        self._max_bytes, self._make = max_bytes, make
        self._total_bytes = 0
        self._entries: OrderedDict[Key, tuple[PlanOrError, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
        """Return the plan from the cache, or make it. Raises PlanImpossible with the message of the planner."""
        key = policy, limits, kv_blocks
        # The lock allows one plan at a time. Concurrent plans would not finish sooner, and each plan would need its
        # memory at the same time.
        with self._lock:
            if key not in self._entries:
                self._store(key, self._plan_or_error(key))
            self._entries.move_to_end(key)
            plan_or_error, _ = self._entries[key]
        if isinstance(plan_or_error, tuple):
            raise PlanImpossible(*plan_or_error)
        return plan_or_error

    def _plan_or_error(self, key: Key) -> PlanOrError:
        try:
            return self._make(*key)
        except PlanImpossible as error:
            return error.args

    def _store(self, key: Key, plan_or_error: PlanOrError) -> None:
        entry_bytes = _estimate_bytes(plan_or_error, key[0])
        self._entries[key] = plan_or_error, entry_bytes
        self._total_bytes += entry_bytes
        # The newest plan stays in the cache even if this plan alone exceeds the limit.
        while self._total_bytes > self._max_bytes and len(self._entries) > 1:
            _, (_, freed_bytes) = self._entries.popitem(last=False)
            self._total_bytes -= freed_bytes


def _estimate_bytes(plan_or_error: PlanOrError, policy: BucketPolicy) -> int:
    bucket_count = 0 if isinstance(plan_or_error, tuple) else len(plan_or_error.prompt) + len(plan_or_error.decode)
    texts = policy.file, policy.optimal and policy.optimal.traffic
    return SMALL + sum(map(sys.getsizeof, texts)) + BYTES_PER_BUCKET * bucket_count


kept_plan = KeptPlans().get
"""Returns the plan of a policy for a device with `kv_blocks`, like make_plan(), from the cache."""
