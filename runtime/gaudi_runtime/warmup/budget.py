"""What warm-up may spend: memory on graphs, and time on new buckets. State machines over measured amounts, no effects.

    budget = CaptureBudget(plan, pool, block_size=..., prompt_order=..., decode_order=...)
    while step := budget.next():
        phase = budget.of(step.phase)
        try:
            phase.take(engine.capture(step.phase, step.bucket))
        except DeviceOutOfMemory:
            phase.fail()

First pass: prompt with its share, then decode with its share. When one phase is complete then, the other continues
with all that is left. A bucket without a graph is served without replay (docs/warmup.md, Capture budget, Time budget).
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan, weight
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase, Skipped
from gaudi_runtime.units import size
from gaudi_runtime.warmup.memory import GraphPool
from gaudi_runtime.warmup.schedule import capture_order


@dataclass(frozen=True)
class CaptureStep:
    """The bucket to capture now; `position` counts the graphs of the phase from 1."""

    phase: BucketPhase
    bucket: Bucket
    position: int


class PhaseBudget:
    """Queue and running totals of one phase; all amounts are bytes.

    `captured` are the buckets with a graph, in order; `left` and `refused` have the reasons of those without.
    """

    def __init__(self, phase: BucketPhase, queue: Collection[Bucket], share: int, block_size: int) -> None:
        self.phase = phase
        self.share = share
        self.graph_bytes = 0
        self.captured: list[Bucket] = []
        self.left: dict[Bucket, str] = {}
        self.refused: dict[Bucket, str] = {}
        self.over = False
        self._queue = deque(queue)
        self._planned = len(queue)
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
        return len(self.captured) + len(self.refused) == self._planned

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
        """The step's graph took so many bytes: the largest measured over the ranks of a tensor-parallel group."""
        bucket = self._pop()
        self.captured.append(bucket)
        self.graph_bytes += graph_bytes
        self.share -= graph_bytes
        self._weight += self._weigh(bucket)

    def fail(self) -> None:
        """The step's graph did not fit into device memory: the phase ends, and no further bucket is tried."""
        failed = self._queue[0]
        self._leave("the device ran out of memory while its graph was captured")
        self.end(f"capture of {self.phase} graphs ended when the device ran out of memory at {tuple(failed)}")

    def refuse(self, reason: str) -> None:
        """The engine makes no graph of the step's shape, for good: no other share would change that."""
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


class CaptureBudget:
    """Answers the next bucket to capture until nothing more fits.

    Every step is answered by exactly one of `take`, `fail` and `refuse` of its phase.
    """

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
        """`cold` buckets were not compiled and get no graph; who left them cold has named them."""

        def budget(phase: BucketPhase, order: CaptureOrder, share: int) -> PhaseBudget:
            queue = [bucket for bucket in capture_order(plan, phase, order) if (phase, bucket) not in cold]
            return PhaseBudget(phase, queue, share, block_size)

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

    def of(self, phase: BucketPhase) -> PhaseBudget:
        """The budget of one phase, which is told how its step went."""
        return self._prompt if phase is BucketPhase.PROMPT else self._decode

    def end(self, reason: str) -> None:
        """No further bucket is tried, in any phase; those that were not are left for this reason."""
        for budget in (self._prompt, self._decode):
            budget.end(reason)
        self._passes.clear()
        self._leftover_given = True

    def skipped(self) -> tuple[Skipped, ...]:
        """Buckets left without a graph so far, with the reason."""
        return tuple(
            Skipped(phase=budget.phase, bucket=bucket, reason=reason)
            for budget in (self._prompt, self._decode)
            for bucket, reason in (*budget.refused.items(), *budget.left.items())
        )

    def _give_leftover(self) -> bool:
        """Once: when one phase is complete, the other goes on with every byte that is left."""
        unfinished = [budget for budget in (self._prompt, self._decode) if not budget.complete]
        bytes_left = self._pool - self._prompt.graph_bytes - self._decode.graph_bytes
        # A phase that met the end of memory gets no second pass: it would meet it again.
        if self._leftover_given or len(unfinished) != 1 or unfinished[0].over or bytes_left <= 0:
            return False
        self._leftover_given = True
        unfinished[0].resume(bytes_left)
        self._passes.append(unfinished[0])
        return True


class TimeBudget:
    """New buckets may be begun for `seconds` from now, None without end. `clock` returns monotonic seconds."""

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._seconds, self._clock, self._started = seconds, clock, clock()

    def spent(self) -> bool:
        """Whether no further bucket may be begun; one in work is finished."""
        return self._seconds is not None and self.elapsed() >= self._seconds

    def elapsed(self) -> float:
        """Seconds since warm-up began."""
        return self._clock() - self._started

    @property
    def reason(self) -> str:
        """Why a bucket was left out, once the budget is spent."""
        return f"the time budget of {self._seconds:g} s was spent before its turn"
