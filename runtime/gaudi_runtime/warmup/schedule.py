"""The schedule of a warm-up: its steps, their order, and their budgets (docs/internals/warmup.md).

Functions return the order of compilations, sampler runs, block swaps and captures. State machines use measured amounts
to divide the memory for graphs and the time for new buckets:

    budget = CaptureBudget(plan, pool, block_size=..., prompt_order=..., decode_order=...)
    while step := budget.next_step():
        phase = budget.phase_budget(step.phase)
        try:
            phase.record_captured(engine.capture(step.phase, step.bucket))
        except DeviceOutOfMemory as error:
            phase.record_out_of_memory(str(error))

In the first pass, prompt and then decode capture graphs within their shares. In the second pass, each incomplete phase
continues with all remaining memory, prompt first. A bucket without a graph is served without graph replay
(docs/internals/warmup.md, Capture budget).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.preparation import PreparationSkipCause
from gaudi_runtime.contract.report import BucketPhase, SkippedBucketReport
from gaudi_runtime.memory_split import GraphPool
from gaudi_runtime.units import format_bytes
from gaudi_runtime.warmup.cover_first import cover_first

Order = tuple[Bucket, ...]


@dataclass(frozen=True)
class ScheduledCompile:
    """The next scheduled bucket to compile. `position` counts the buckets of the phase from 1.

    A `covering` bucket is compiled and captured even after the time budget is spent.
    """

    phase: BucketPhase
    bucket: Bucket
    position: int
    covering: bool


def schedule_compiles(
    plan: BucketPlan, limits: Limits, kv_blocks: int, prompt_order: CaptureOrder, decode_order: CaptureOrder
) -> list[ScheduledCompile]:
    """Return all buckets in compile order, on a device with `kv_blocks` KV blocks.

    One phase follows the other, except with the order `CoverFirst`. With this order, covering sets come first. Then the
    phases alternate in proportion to their numbers of buckets, so that a warm-up that ends early has compiled an equal
    share of each phase.
    """
    orders = {BucketPhase.PROMPT: prompt_order, BucketPhase.DECODE: decode_order}
    steps = {phase: _phase_steps(plan, phase, limits, kv_blocks, order) for phase, order in orders.items()}
    prompt, decode = ([step for step in phase_steps if not step.covering] for phase_steps in steps.values())
    if CaptureOrder.COVER_FIRST not in orders.values():
        return [*prompt, *decode]
    turns = [((2 * index + 1) / len(rest), step) for rest in (prompt, decode) for index, step in enumerate(rest)]
    covering_steps = [step for phase_steps in steps.values() for step in phase_steps if step.covering]
    return [*covering_steps, *(step for _, step in sorted(turns, key=lambda turn: turn[0]))]


def _phase_steps(
    plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int, order: CaptureOrder
) -> list[ScheduledCompile]:
    covering_count, buckets = 0, schedule_compile_order(plan, phase)
    if order is CaptureOrder.COVER_FIRST:
        cover_order = cover_first(plan, phase, limits, kv_blocks)
        covering_count, buckets = cover_order.covering_count, cover_order.buckets
    return [
        ScheduledCompile(phase, bucket, position, covering=position <= covering_count)
        for position, bucket in enumerate(buckets, start=1)
    ]


def schedule_compile_order(plan: BucketPlan, phase: BucketPhase) -> Order:
    """Return the buckets of a phase in compile order, largest first. cover_first() orders them for `CoverFirst`."""
    # The largest bucket comes first: the memory peak occurs at the start, and smaller shapes reuse the workspace of the
    # largest one.
    return _sort_by_tokens(plan.buckets_of(phase), phase)[::-1]


GRAPHS_FIRST = {BucketPhase.PROMPT: CaptureOrder.MIN_TOKENS, BucketPhase.DECODE: CaptureOrder.MAX_BS}
"""The capture order of CoverFirst. Compiled buckets without a graph leave no gap, so the smallest graphs come first."""


def schedule_capture_order(plan: BucketPlan, phase: BucketPhase, order: CaptureOrder) -> Order:
    """Return the buckets of a phase in capture order. Buckets with the largest gain from a graph come first."""
    if order is CaptureOrder.COVER_FIRST:
        order = GRAPHS_FIRST[phase]
    if order is CaptureOrder.MIN_TOKENS:
        return _sort_by_tokens(plan.buckets_of(phase), phase)
    if order is CaptureOrder.LARGEST_FIRST:
        return tuple(sorted(plan.buckets_of(phase), reverse=True))
    return tuple(sorted(plan.buckets_of(phase), key=lambda b: (-b.batch_size, b.query_len, b.num_blocks)))


def _sort_by_tokens(buckets: Iterable[Bucket], phase: BucketPhase) -> Order:
    """Sort by (batch size * length, length, batch size). The length of a decode bucket is its number of blocks."""
    if phase is BucketPhase.DECODE:
        return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.num_blocks, b.num_blocks, b.batch_size)))
    return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.query_len, b.query_len, b.batch_size, b.num_blocks)))


@dataclass(frozen=True)
class ScheduledSamplerRun:
    """A scheduled run of the sampler. `batch_changed` is True if the previous run had another batch."""

    temperature: float
    top_p: float
    top_k: int
    batch_changed: bool


_SETTINGS = (
    (0.0, 1.0, 0),
    (1.0, 1.0, 0),
    (0.7, 0.9, 50),
    (0.3, 0.95, 20),
    (1.2, 0.8, 100),
    (0.8, 0.85, 0),
)

SAMPLER_RUNS = tuple(
    ScheduledSamplerRun(*setting, batch_changed=changed) for changed, setting in product((True, False), _SETTINGS)
)
"""The runs for every batch size: greedy, plain random and four filtered settings, on changed and unchanged batches."""


def schedule_sampler_batch_sizes(decode: Sequence[Bucket]) -> tuple[int, ...]:
    """Return the batch sizes for the sampler's warm-up: 0 (the empty path), 1, and the sizes of decode buckets."""
    return tuple(sorted({0, 1} | {bucket.batch_size for bucket in decode}))


SWAP_SIZES = (8, 16, 32, 64, 128, 256, 512)
"""The padded numbers of pairs that the defragmenter swaps, ascending; a step swaps at most the largest."""

# A swap needs 2 KV blocks. With fewer blocks, warm-up of the defragmenter is skipped with a warning.
MIN_BLOCKS = 2


def schedule_swap_sizes() -> tuple[int, ...]:
    """Return the padded sizes of the block swaps (1, 0) in the warm-up schedule, in order."""
    # Each swap exchanges the same two blocks, so an even number of swaps restores the cache. The first size is repeated
    # if the number is odd.
    return SWAP_SIZES if len(SWAP_SIZES) % 2 == 0 else (*SWAP_SIZES, SWAP_SIZES[0])


@dataclass(frozen=True)
class ScheduledCapture:
    """The next scheduled bucket whose graph is captured. `position` counts the graphs of the phase from 1."""

    phase: BucketPhase
    bucket: Bucket
    position: int


class _LeftOut(NamedTuple):
    """The reason and the cause why a bucket has no graph."""

    reason: str
    cause: PreparationSkipCause


class PhaseBudget:
    """The capture budget of one phase: its queue and its running totals. All amounts are in bytes.

    `captured` contains the buckets with a graph, in order. `left_out` and `refused` contain the buckets without a
    graph. Only buckets of `left_out` are tried in the second pass.
    """

    def __init__(self, phase: BucketPhase, queue: Collection[Bucket], share: int, block_size: int) -> None:
        self.phase = phase
        self.remaining_bytes = share
        self.graph_bytes = 0
        self.captured: list[Bucket] = []
        self.left_out: dict[Bucket, _LeftOut] = {}
        self.refused: dict[Bucket, _LeftOut] = {}
        self.ended = False
        self._queue = deque(queue)
        self._planned_count = len(queue)
        self._block_size = block_size
        self._captured_weight = 0
        self.waiting_weight = sum(map(self._weigh, queue))

    @property
    def waiting_count(self) -> int:
        """The number of buckets in this pass that are neither captured nor left out.

        `waiting_weight` is the total weight of these buckets.
        """
        return len(self._queue)

    @property
    def is_complete(self) -> bool:
        """Whether every bucket that can have a graph has a graph."""
        return len(self.captured) + len(self.refused) == self._planned_count

    def next_step(self) -> ScheduledCapture | None:
        """Return the first bucket of the queue whose estimated bytes are less than the rest of the share."""
        while self._queue and not self.ended:
            bucket = self._queue[0]
            estimate = self.estimate_bytes(bucket)
            # The estimate is 0 before the first graph, because the size of a graph is known only after a capture.
            if estimate < self.remaining_bytes:
                return ScheduledCapture(self.phase, bucket, len(self.captured) + 1)
            free = format_bytes(max(0, self.remaining_bytes))
            self._skip_first(
                f"this graph needs about {format_bytes(estimate)}, but only {free} are left for {self.phase} graphs",
                PreparationSkipCause.MEMORY,
            )
        return None

    def record_captured(self, graph_bytes: int) -> None:
        """Count the bytes of the captured graph.

        `graph_bytes` is the largest value among the ranks of a tensor-parallel group.
        """
        bucket = self._pop()
        self.captured.append(bucket)
        self.graph_bytes += graph_bytes
        self.remaining_bytes -= graph_bytes
        self._captured_weight += self._weigh(bucket)

    def record_out_of_memory(self, reason: str) -> None:
        """End the phase, because the graph of the current step did not fit into the device memory."""
        failed_bucket = self._queue[0]
        # The budget had bytes for this graph. So if the phase has no graph yet, its memory was not used up by graphs.
        cause = PreparationSkipCause.MEMORY if self.captured else PreparationSkipCause.FAILURE
        self._skip_first(f"the device ran out of memory while this graph was captured ({reason})", cause)
        self.skip_all_except(
            (),
            f"capture of {self.phase} graphs ended when the device ran out of memory at {tuple(failed_bucket)}",
            cause,
        )
        self.ended = True

    def record_refused(self, reason: str, cause: PreparationSkipCause) -> None:
        """Record that the engine makes no graph of the current step's shape."""
        # The second pass does not retry this shape, because a larger share of memory would not change the result.
        self.refused[self._pop()] = _LeftOut(reason, cause)

    def skip_all_except(self, buckets: Collection[Bucket], reason: str, cause: PreparationSkipCause) -> None:
        """Leave out all buckets that were not tried yet, except `buckets`."""
        for _ in range(len(self._queue)):
            if self._queue[0] in buckets:
                self._queue.rotate(-1)
            else:
                self._skip_first(reason, cause)

    def resume(self, share: int) -> None:
        """Queue the left-out buckets a second time, with another share of the memory."""
        self._queue = deque(self.left_out)
        self.waiting_weight = sum(map(self._weigh, self._queue))
        self.left_out = {}
        self.remaining_bytes = share

    def estimate_bytes(self, bucket: Bucket) -> int:
        """Estimate the bytes of a graph from the mean of all captured graphs; 0 before the first graph."""
        return self._weigh(bucket) * self.graph_bytes // self._captured_weight if self._captured_weight else 0

    def _skip_first(self, reason: str, cause: PreparationSkipCause) -> None:
        self.left_out[self._pop()] = _LeftOut(reason, cause)

    def _pop(self) -> Bucket:
        bucket = self._queue.popleft()
        self.waiting_weight -= self._weigh(bucket)
        return bucket

    def _weigh(self, bucket: Bucket) -> int:
        return bucket_weight(self.phase, bucket, self._block_size)


class CaptureBudget:
    """The memory budget of graph capture, and the order in which the buckets get their memory.

    `next_step` returns the next bucket to capture, until no more graphs fit. After every step, the caller calls exactly
    one of the phase's methods `record_captured`, `record_out_of_memory` and `record_refused`.
    """

    def __init__(
        self,
        plan: BucketPlan,
        pool: GraphPool,
        *,
        block_size: int,
        prompt_order: CaptureOrder = CaptureOrder.COVER_FIRST,
        decode_order: CaptureOrder = CaptureOrder.COVER_FIRST,
        cold: Collection[tuple[BucketPhase, Bucket]] = (),
    ) -> None:
        """Create the budget. `cold` buckets get no graph, because they were not compiled; they are already reported."""

        def make_phase_budget(phase: BucketPhase, order: CaptureOrder, share: int) -> PhaseBudget:
            queue = [bucket for bucket in schedule_capture_order(plan, phase, order) if (phase, bucket) not in cold]
            return PhaseBudget(phase, queue, share, block_size)

        self._pool_bytes = pool.total_bytes
        self._prompt = make_phase_budget(BucketPhase.PROMPT, prompt_order, pool.prompt_bytes)
        self._decode = make_phase_budget(BucketPhase.DECODE, decode_order, pool.decode_bytes)
        self._passes = deque((self._prompt, self._decode))
        self._second_pass = deque((self._prompt, self._decode))

    def next_step(self) -> ScheduledCapture | None:
        """Return the next bucket to capture, or None when capture has ended."""
        while self._passes or self._resume_next_phase():
            step = self._passes[0].next_step()
            if step:
                return step
            self._passes.popleft()
        return None

    def phase_budget(self, phase: BucketPhase) -> PhaseBudget:
        """Return the budget of one phase, which records the results of the phase's steps."""
        return self._prompt if phase is BucketPhase.PROMPT else self._decode

    def end(self, reason: str, except_buckets: Collection[tuple[BucketPhase, Bucket]] = ()) -> None:
        """Leave out all buckets because of a limit, except the buckets in `except_buckets`, which are tried once more.

        `reason` names the limit.
        """
        for budget in (self._prompt, self._decode):
            kept = {bucket for phase, bucket in except_buckets if phase is budget.phase}
            budget.skip_all_except(kept, reason, PreparationSkipCause.LIMIT)
        self._second_pass.clear()

    def skipped_buckets(self) -> tuple[SkippedBucketReport, ...]:
        """Return the buckets that have no graph so far, with the reasons."""
        return tuple(
            SkippedBucketReport(
                phase=budget.phase,
                bucket=bucket,
                reason=reason,
                cause=cause,
                graph_bytes=budget.estimate_bytes(bucket) if cause is PreparationSkipCause.MEMORY else 0,
            )
            for budget in (self._prompt, self._decode)
            for bucket, (reason, cause) in (*budget.refused.items(), *budget.left_out.items())
        )

    def _resume_next_phase(self) -> bool:
        """Give all remaining bytes to the next incomplete phase. Return False if no phase is left for a second pass."""
        while self._second_pass:
            budget = self._second_pass.popleft()
            bytes_left = self._pool_bytes - self._prompt.graph_bytes - self._decode.graph_bytes
            # A phase that ran out of memory gets no second pass, because it would run out of memory a second time.
            if not budget.is_complete and not budget.ended and bytes_left > 0:
                budget.resume(bytes_left)
                self._passes.append(budget)
                return True
        return False


class TimeBudget:
    """The time budget of warm-up. New steps start only within `seconds`; None means no limit.

    `clock` returns monotonic seconds.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._seconds, self._clock, self._started = seconds, clock, clock()

    def is_spent(self, reserved_seconds: float = 0.0) -> bool:
        """Return True if no further bucket may start. A running step is completed.

        `reserved_seconds` is the number of seconds that later steps need.
        """
        return self._seconds is not None and self.elapsed_seconds() + reserved_seconds >= self._seconds

    def elapsed_seconds(self) -> float:
        """Return the seconds since warm-up began."""
        return self._clock() - self._started

    @property
    def reason(self) -> str:
        """Return the reason for a bucket that was left out because the time budget was spent."""
        return f"the time budget of {self._seconds:g} s was spent before this bucket was started"
