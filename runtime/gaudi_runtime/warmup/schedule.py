"""Which graph to capture next within a memory budget: a state machine over measured bytes, without effects.

    budget = CaptureBudget(plan, pool, block_size=..., prompt_order=..., decode_order=...)
    while step := budget.next():
        try:
            budget.captured(engine.capture(step.phase, step.bucket))
        except DeviceOutOfMemory:
            budget.out_of_memory()

First pass: prompt with its share, then decode with its share. When one phase is complete then, the other continues
with all that is left. A bucket without a graph is served without replay (docs/warmup.md, Capture budget).
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase, Skipped
from gaudi_runtime.memory import GraphPool
from gaudi_runtime.warmup.log_lines import size
from gaudi_runtime.warmup.order import capture_order, weight


@dataclass(frozen=True)
class CaptureStep:
    """The bucket to capture now; `position` of `planned` counts the graphs of the phase from 1."""

    phase: BucketPhase
    bucket: Bucket
    position: int
    planned: int


class _PhaseBudget:
    """Queue and running totals of one phase. All amounts are bytes."""

    def __init__(
        self, phase: BucketPhase, queue: Collection[Bucket], planned: int, share: int, block_size: int
    ) -> None:
        self.phase = phase
        self.share = share
        self.graph_bytes = 0
        self.captured: list[Bucket] = []
        self.left: dict[Bucket, str] = {}
        self.over = False
        self._queue = deque(queue)
        self._wanted = len(queue)
        self._planned = planned
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
        return len(self.captured) == self._wanted

    def next(self) -> CaptureStep | None:
        """The first bucket of the queue whose estimate is below what is left of the share."""
        while self._queue and not self.over:
            bucket = self._queue[0]
            estimate = self._estimate(bucket)
            if estimate < self.share:
                return CaptureStep(self.phase, bucket, len(self.captured) + 1, self._planned)
            room = size(max(0, self.share))
            self._leave(f"it needs about {size(estimate)} and {room} are left for {self.phase} graphs")
        return None

    def take(self, graph_bytes: int) -> None:
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


class CaptureBudget:
    """Answers the next bucket to capture until nothing more fits. Every step is answered by exactly one report."""

    def __init__(
        self,
        plan: BucketPlan,
        pool: GraphPool,
        *,
        block_size: int,
        prompt_order: CaptureOrder = CaptureOrder.MIN_TOKENS,
        decode_order: CaptureOrder = CaptureOrder.MAX_BS,
        cold: Collection[tuple[BucketPhase, Bucket]] = (),
    ) -> None:
        """`cold` buckets were not compiled and get no graph; they stay in the plan that percentages count."""

        def budget(phase: BucketPhase, order: CaptureOrder, share: int) -> _PhaseBudget:
            queue = [bucket for bucket in capture_order(plan, phase, order) if (phase, bucket) not in cold]
            return _PhaseBudget(phase, queue, len(plan.of(phase)), share, block_size)

        self._pool = pool.total
        self._prompt = budget(BucketPhase.PROMPT, prompt_order, pool.prompt)
        self._decode = budget(BucketPhase.DECODE, decode_order, pool.decode)
        self._passes = deque((self._prompt, self._decode))
        self._leftover_given = False

    def next(self) -> CaptureStep | None:
        """The bucket to capture now, None when capture is over."""
        while self._passes or self._give_leftover():
            step = self._passes[0].next()
            if step:
                return step
            self._passes.popleft()
        return None

    def captured(self, graph_bytes: int) -> None:
        """The step's graph took so many bytes: the largest measured over the ranks of a tensor-parallel group."""
        self._passes[0].take(graph_bytes)

    def out_of_memory(self) -> None:
        """The step's graph did not fit into device memory; its phase ends."""
        self._passes[0].fail()

    def end(self, reason: str) -> None:
        """No further bucket is tried, in any phase; those that were not are left for this reason."""
        for budget in (self._prompt, self._decode):
            budget.end(reason)
        self._passes.clear()
        self._leftover_given = True

    def buckets(self, phase: BucketPhase) -> tuple[Bucket, ...]:
        """Buckets with a graph, in the order of their capture."""
        return tuple(self._of(phase).captured)

    def waiting(self, phase: BucketPhase) -> tuple[int, int]:
        """How many buckets of a phase still have their turn to come in this pass, and their weight together."""
        budget = self._of(phase)
        return budget.waiting, budget.waiting_weight

    def graph_bytes(self, phase: BucketPhase) -> int:
        """Measured bytes of all graphs of a phase."""
        return self._of(phase).graph_bytes

    def skipped(self) -> tuple[Skipped, ...]:
        """Buckets left without a graph so far, with the reason."""
        return tuple(
            Skipped(phase=budget.phase, bucket=bucket, reason=reason)
            for budget in (self._prompt, self._decode)
            for bucket, reason in budget.left.items()
        )

    def _of(self, phase: BucketPhase) -> _PhaseBudget:
        return self._prompt if phase is BucketPhase.PROMPT else self._decode

    def _give_leftover(self) -> bool:
        """Once: when one phase is complete, the other goes on with every byte that is left."""
        unfinished = [budget for budget in (self._prompt, self._decode) if not budget.complete]
        bytes_left = self._pool - self._prompt.graph_bytes - self._decode.graph_bytes
        if self._leftover_given or len(unfinished) != 1 or unfinished[0].over or bytes_left <= 0:
            return False
        self._leftover_given = True
        unfinished[0].resume(bytes_left)
        self._passes.append(unfinished[0])
        return True
