"""The plan of a spec, and other answers that every reconcile asks for again, kept by their inputs within bounds.

Those that refuse are kept like those that give.

A spec may ask for hundreds of thousands of buckets, and whoever may make one may make many. So what is kept is bounded
in bytes, and one answer is worked out at a time, however many reconciles there are.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, Generic, TypeVar

from gaudi_operator.core.admission.bounds import most_kv_blocks
from gaudi_operator.core.children.runtime_config import bucket_policy, plan_limits
from gaudi_operator.core.resource import Inference
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible

T = TypeVar("T")

_WORKING = RLock()
"""One for all kinds of answers: several at once would end no sooner, and take the memory of all."""


@dataclass(frozen=True)
class _Refusal:
    """Its arguments alone: the exception itself would keep everything that was in work when it was raised."""

    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Kept(Generic[T]):
    answer: T | _Refusal
    size: int


class Answers(Generic[T]):
    """Answers of one kind, up to `most_bytes` of them; those that nobody has asked for the longest go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, _Kept[T]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, work: Callable[[], T], size: Callable[[T | None], int]) -> T:
        """The answer to `key`, worked out unless it is kept; `size` gives its bytes, of a refusal with None.

        Raises PlanImpossible with the sentence of `work`, now and whenever it is asked again. What is kept is answered
        at once, what has to be worked out waits for its turn.
        """
        found = self._look_up(key)
        if found is None:
            with _WORKING:
                # Once more: another reconcile may have worked it out while this one waited for its turn.
                found = self._look_up(key) or self._work_out(key, work, size)
        if isinstance(found.answer, _Refusal):
            raise PlanImpossible(*found.answer.arguments)
        return found.answer

    def _look_up(self, key: Hashable) -> _Kept[T] | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _work_out(self, key: Hashable, work: Callable[[], T], size: Callable[[T | None], int]) -> _Kept[T]:
        try:
            answer = work()
            found = _Kept[T](answer, size(answer))
        except PlanImpossible as error:
            found = _Kept(_Refusal(error.args), size(None))
        with self._lock:
            self._kept[key] = found
            self._bytes += found.size
            # An answer that is larger than all room stays alone: the next reconcile asks for it again.
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return found


def text_bytes(policy: BucketPolicy) -> int:
    """Bytes of the texts of a policy, which are by far the largest part of a key."""
    return sum(map(sys.getsizeof, (policy.file, policy.optimal and policy.optimal.traffic)))


BYTES_PER_BUCKET = 120
"""As measured: a tuple, its place in the plan and in what finds it; the numbers are shared."""

SMALL = 16 * 1024
"""More bytes than any answer without buckets and its key take, but for the texts of the policy."""

_PLANS: Answers[BucketPlan] = Answers(64 * 2**20)
"""Room for one plan of the most buckets, or hundreds of common ones."""

_POSSIBLE: Answers[bool] = Answers(16 * 2**20)


def check_plan(inference: Inference) -> None:
    """Raises PlanImpossible with the planner's sentence, without a full stop, when there is no plan."""
    spec = inference.spec
    policy, limits, kv_blocks = bucket_policy(spec), plan_limits(spec), most_kv_blocks(spec)
    # Not the plan itself: room is for few of those, and every reconcile of every resource asks whether there is one.
    _POSSIBLE.get((policy, limits, kv_blocks), lambda: bool(plan_of(policy, limits, kv_blocks)), small(policy))


def plan_of(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
    """The whole plan. Raises PlanImpossible with the planner's sentence."""

    def size(plan: BucketPlan | None) -> int:
        buckets = len(plan.prompt) + len(plan.decode) if plan else 0
        return SMALL + text_bytes(policy) + BYTES_PER_BUCKET * buckets

    return _PLANS.get((policy, limits, kv_blocks), lambda: make_plan(policy, limits, kv_blocks), size)


def small(policy: BucketPolicy) -> Callable[[object], int]:
    """Size of an answer without buckets: that of its key."""
    return lambda _answer: SMALL + text_bytes(policy)
