"""What one phase may capture: a queue of buckets, a share of the pool, and the bytes measured so far."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, weight
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.units import size


@dataclass(frozen=True)
class CaptureStep:
    """The bucket to capture now; `position` counts the graphs of the phase from 1."""

    phase: BucketPhase
    bucket: Bucket
    position: int


class PhaseBudget:
    """Queue and running totals of one phase; `left` and `refused` have the reasons of theirs. All amounts are bytes."""

    def __init__(self, phase: BucketPhase, queue: Collection[Bucket], share: int, block_size: int) -> None:
        self.phase = phase
        self.share = share
        self.graph_bytes = 0
        self.captured: list[Bucket] = []
        self.left: dict[Bucket, str] = {}
        self.refused: dict[Bucket, str] = {}
        self.over = False
        self._queue = deque(queue)
        self._wanted = len(queue)
        self._block_size = block_size
        self._weight = 0
        self.waiting_weight = sum(map(self._weigh, queue))

    @property
    def waiting(self) -> int:
        """Buckets that were neither captured nor left in this pass; `waiting_weight` is theirs together."""
        return len(self._queue)

    @property
    def complete(self) -> bool:
        """Whether every bucket that can have a graph has one."""
        return len(self.captured) + len(self.refused) == self._wanted

    def next(self) -> CaptureStep | None:
        """The first bucket of the queue whose estimate is below what is left of the share."""
        while self._queue and not self.over:
            bucket = self._queue[0]
            estimate = self._estimate(bucket)
            if estimate < self.share:
                return CaptureStep(self.phase, bucket, len(self.captured) + 1)
            room = size(max(0, self.share))
            self._leave(f"it needs about {size(estimate)} and {room} are left for {self.phase} graphs")
        return None

    def take(self, graph_bytes: int) -> None:
        """The first bucket of the queue has its graph."""
        bucket = self._pop()
        self.captured.append(bucket)
        self.graph_bytes += graph_bytes
        self.share -= graph_bytes
        self._weight += self._weigh(bucket)

    def fail(self) -> None:
        """End the phase: the bucket in work did not fit, and no further one is tried."""
        failed = self._queue[0]
        self._leave("the device ran out of memory while its graph was captured")
        self.end(f"capture of {self.phase} graphs ended when the device ran out of memory at {tuple(failed)}")

    def refuse(self, reason: str) -> None:
        """Leave the bucket in work, for good: no other share would change that."""
        self.refused[self._pop()] = reason

    def end(self, reason: str) -> None:
        """Leave every bucket that was not tried yet, for this reason."""
        while self._queue:
            self._leave(reason)
        self.over = True

    def resume(self, share: int) -> None:
        """Try what was left once more, with another share."""
        self._queue = deque(self.left)
        self.waiting_weight = sum(map(self._weigh, self._queue))
        self.left = {}
        self.share = share

    def _leave(self, reason: str) -> None:
        self.left[self._pop()] = reason

    def _pop(self) -> Bucket:
        bucket = self._queue.popleft()
        self.waiting_weight -= self._weigh(bucket)
        return bucket

    def _estimate(self, bucket: Bucket) -> int:
        """Bytes by the average of all captured so far; 0 before the first."""
        return self._weigh(bucket) * self.graph_bytes // self._weight if self._weight else 0

    def _weigh(self, bucket: Bucket) -> int:
        return weight(self.phase, bucket, self._block_size)
