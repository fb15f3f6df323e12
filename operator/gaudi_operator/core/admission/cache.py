"""Answers that every pass asks for again, kept by their inputs: those that refuse like those that give, within bounds.

A spec may ask for hundreds of thousands of buckets, and whoever may make one may make many. So what is kept is bounded
in bytes, and one answer is worked out at a time, however many passes there are.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, Generic, TypeVar

from gaudi_runtime.contract.bucketing import BucketPolicy
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
                # Once more: another pass may have worked it out while this one waited for its turn.
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
            # An answer that is larger than all room stays alone: the next pass asks for it again.
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return found


def text_bytes(policy: BucketPolicy) -> int:
    """Bytes of the texts of a policy, which are by far the largest part of a key."""
    return sum(map(sys.getsizeof, (policy.file, policy.optimal and policy.optimal.traffic)))
