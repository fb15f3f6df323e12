"""The schedule of a warm-up: which steps run, in which order, within which budgets (docs/internals/warmup.md).

Functions return the order of compiles, sampler runs, block swaps and captures. State machines over measured amounts
divide the memory for graphs and the time for new buckets:

    budget = CaptureBudget(plan, pool, block_size=..., prompt_order=..., decode_order=...)
    while step := budget.next():
        phase = budget.phase_budget(step.phase)
        try:
            phase.take(engine.capture(step.phase, step.bucket))
        except DeviceOutOfMemory:
            phase.fail()

In the first pass, prompt and then decode capture graphs within their shares. In the second pass, each incomplete phase
continues with all remaining memory, prompt first. A bucket without a graph is served without replay
(docs/internals/warmup.md, Capture budget).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket, weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase, Skipped
from gaudi_runtime.memory_split import GraphPool
from gaudi_runtime.units import size
from gaudi_runtime.warmup.cover_first import cover_first

Order = tuple[Bucket, ...]


@dataclass(frozen=True)
class CompileStep:
    """The scheduled bucket to compile now; `position` counts the buckets of the phase from 1.

    A `covering` bucket is compiled and captured even after the time budget is spent.
    """

    phase: BucketPhase
    bucket: Bucket
    position: int
    covering: bool


def compile_steps(
    plan: BucketPlan, limits: Limits, kv_blocks: int, prompt_order: CaptureOrder, decode_order: CaptureOrder
) -> list[CompileStep]:
    """Return every bucket in the order of compiling, on a device with `kv_blocks` KV blocks.

    The phases follow each other. If the order of a phase is CoverFirst, covering sets come first. Then both phases take
    turns in proportion to their buckets, so that a warm-up that ends early has compiled an equal share of each.
    """
    orders = {BucketPhase.PROMPT: prompt_order, BucketPhase.DECODE: decode_order}
    steps = {phase: _phase_steps(plan, phase, limits, kv_blocks, order) for phase, order in orders.items()}
    prompt, decode = ([each for each in found if not each.covering] for found in steps.values())
    if CaptureOrder.COVER_FIRST not in orders.values():
        return [*prompt, *decode]
    turns = [((2 * at + 1) / len(rest), each) for rest in (prompt, decode) for at, each in enumerate(rest)]
    first = [each for found in steps.values() for each in found if each.covering]
    return [*first, *(each for _, each in sorted(turns, key=lambda turn: turn[0]))]


def _phase_steps(
    plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int, order: CaptureOrder
) -> list[CompileStep]:
    covering, buckets = 0, compile_order(plan, phase)
    if order is CaptureOrder.COVER_FIRST:
        found = cover_first(plan, phase, limits, kv_blocks)
        covering, buckets = found.covering, found.buckets
    return [CompileStep(phase, each, at, covering=at <= covering) for at, each in enumerate(buckets, start=1)]


def compile_order(plan: BucketPlan, phase: BucketPhase) -> Order:
    """Return the buckets of a phase in compile order, largest first; CoverFirst has its own order."""
    # The memory peak comes at once, and later shapes reuse its workspace.
    return _fewest_tokens_first(plan.buckets_of(phase), phase)[::-1]


GRAPHS_FIRST = {BucketPhase.PROMPT: CaptureOrder.MIN_TOKENS, BucketPhase.DECODE: CaptureOrder.MAX_BS}
"""The capture order of CoverFirst. Compiled buckets without a graph leave no gap, so the smallest graphs come first."""


def capture_order(plan: BucketPlan, phase: BucketPhase, order: CaptureOrder) -> Order:
    """Return the buckets of a phase in capture order; those that gain most by a graph come first."""
    if order is CaptureOrder.COVER_FIRST:
        order = GRAPHS_FIRST[phase]
    if order is CaptureOrder.MIN_TOKENS:
        return _fewest_tokens_first(plan.buckets_of(phase), phase)
    if order is CaptureOrder.LARGEST_FIRST:
        return tuple(sorted(plan.buckets_of(phase), reverse=True))
    return tuple(sorted(plan.buckets_of(phase), key=lambda b: (-b.batch_size, b.query_len, b.num_blocks)))


def _fewest_tokens_first(buckets: Iterable[Bucket], phase: BucketPhase) -> Order:
    """Sort by (batch size * length, length, batch size); the length of a decode bucket is its blocks."""
    if phase is BucketPhase.DECODE:
        return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.num_blocks, b.num_blocks, b.batch_size)))
    return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.query_len, b.query_len, b.batch_size, b.num_blocks)))


@dataclass(frozen=True)
class SamplerRun:
    """A scheduled warm-up run of the sampler; `batch_changed` says if the batch differs from the previous run's."""

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
    SamplerRun(*setting, batch_changed=changed) for changed, setting in product((True, False), _SETTINGS)
)
"""The runs for every batch size: greedy, plain random and four filtered settings, on changed and unchanged batches."""


def sampler_batch_sizes(decode: Sequence[Bucket]) -> tuple[int, ...]:
    """Return the batch sizes to schedule for the sampler's warm-up: 0 (the empty path), 1, and of decode buckets."""
    return tuple(sorted({0, 1} | {bucket.batch_size for bucket in decode}))


SWAP_SIZES = (8, 16, 32, 64, 128, 256, 512)
"""The padded numbers of pairs that the defragmenter swaps, ascending; a step swaps at most the largest."""

# With fewer KV blocks there is no pair to swap, so warm-up of the defragmenter is skipped with a warning.
MIN_BLOCKS = 2


def warmup_swaps() -> tuple[int, ...]:
    """Return the padded sizes of the block swaps (1, 0) that the warm-up schedule has, in order."""
    # An even number of swaps restores the cache, so the first size is repeated if needed.
    return SWAP_SIZES if len(SWAP_SIZES) % 2 == 0 else (*SWAP_SIZES, SWAP_SIZES[0])


@dataclass(frozen=True)
class CaptureStep:
    """The scheduled bucket whose graph to capture now; `position` counts the graphs of the phase from 1."""

    phase: BucketPhase
    bucket: Bucket
    position: int


class PhaseBudget:
    """The capture budget of one phase: its queue and running totals; all amounts are in bytes.

    `captured` has the buckets with a graph, in order; `left` and `refused` have the reasons of buckets without one.
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
        """The number of buckets that were neither captured nor left out in this pass.

        `waiting_weight` is their total weight.
        """
        return len(self._queue)

    @property
    def complete(self) -> bool:
        """Whether every bucket that can have a graph has one."""
        return len(self.captured) + len(self.refused) == self._planned

    def next(self) -> CaptureStep | None:
        """Return the first bucket of the queue whose estimate is below the rest of the share."""
        while self._queue and not self.over:
            bucket = self._queue[0]
            estimate = self._estimate(bucket)
            # Before the first graph the estimate is 0, because the size of graphs is known only after capturing one.
            if estimate < self.share:
                return CaptureStep(self.phase, bucket, len(self.captured) + 1)
            room = size(max(0, self.share))
            self._leave(f"it needs about {size(estimate)} and {room} are left for {self.phase} graphs")
        return None

    def take(self, graph_bytes: int) -> None:
        """Count the bytes of the graph that was captured.

        `graph_bytes` is the largest of the ranks of a tensor-parallel group.
        """
        bucket = self._pop()
        self.captured.append(bucket)
        self.graph_bytes += graph_bytes
        self.share -= graph_bytes
        self._weight += self._weigh(bucket)

    def fail(self, reason: str) -> None:
        """End the phase, because the graph of the step did not fit into device memory for this reason."""
        failed = self._queue[0]
        self._leave(f"the device ran out of memory while its graph was captured ({reason})")
        self.end(f"capture of {self.phase} graphs ended when the device ran out of memory at {tuple(failed)}")

    def refuse(self, reason: str) -> None:
        """Record that the engine makes no graph of the step's shape."""
        # Another share would not change this, so the second pass does not try again.
        self.refused[self._pop()] = reason

    def end(self, reason: str) -> None:
        """Leave out every bucket that was not tried yet, for this reason."""
        self.leave_all_but((), reason)
        self.over = True

    def leave_all_but(self, buckets: Collection[Bucket], reason: str) -> None:
        """Leave out the buckets that were not tried yet, for this reason, except these."""
        for _ in range(len(self._queue)):
            if self._queue[0] in buckets:
                self._queue.rotate(-1)
            else:
                self._leave(reason)

    def resume(self, share: int) -> None:
        """Queue the buckets that were left out again, with another share."""
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
        """Estimate the bytes of a graph from the mean of all captured graphs; 0 before the first."""
        return self._weigh(bucket) * self.graph_bytes // self._weight if self._weight else 0

    def _weigh(self, bucket: Bucket) -> int:
        return weight(self.phase, bucket, self._block_size)


class CaptureBudget:
    """The memory budget of graph capture: returns the next bucket to capture until nothing more fits.

    Every step is followed by exactly one of `take`, `fail` and `refuse` of its phase.
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
        """Create the budget; `cold` buckets were not compiled, were already reported, and get no graph."""

        def budget(phase: BucketPhase, order: CaptureOrder, share: int) -> PhaseBudget:
            queue = [bucket for bucket in capture_order(plan, phase, order) if (phase, bucket) not in cold]
            return PhaseBudget(phase, queue, share, block_size)

        self._pool = pool.total
        self._prompt = budget(BucketPhase.PROMPT, prompt_order, pool.prompt)
        self._decode = budget(BucketPhase.DECODE, decode_order, pool.decode)
        self._passes = deque((self._prompt, self._decode))
        self._second_pass = deque((self._prompt, self._decode))

    def next(self) -> CaptureStep | None:
        """Return the bucket to capture now; None when capture is over."""
        while self._passes or self._give_leftover():
            step = self._passes[0].next()
            if step:
                return step
            self._passes.popleft()
        return None

    def phase_budget(self, phase: BucketPhase) -> PhaseBudget:
        """Return the budget of one phase, on which the result of its steps is recorded."""
        return self._prompt if phase is BucketPhase.PROMPT else self._decode

    def end(self, reason: str, but: Collection[tuple[BucketPhase, Bucket]] = ()) -> None:
        """Leave out all buckets for this reason, except those in `but`, which are tried once more."""
        for budget in (self._prompt, self._decode):
            budget.leave_all_but({bucket for phase, bucket in but if phase is budget.phase}, reason)
        self._second_pass.clear()

    def skipped(self) -> tuple[Skipped, ...]:
        """Return the buckets without a graph so far, with the reasons."""
        return tuple(
            Skipped(phase=budget.phase, bucket=bucket, reason=reason)
            for budget in (self._prompt, self._decode)
            for bucket, reason in (*budget.refused.items(), *budget.left.items())
        )

    def _give_leftover(self) -> bool:
        """Give all remaining bytes to the next incomplete phase; return False if each had its second pass."""
        while self._second_pass:
            budget = self._second_pass.popleft()
            bytes_left = self._pool - self._prompt.graph_bytes - self._decode.graph_bytes
            # A phase that ran out of memory gets no second pass, because it would run out of memory again.
            if not budget.complete and not budget.over and bytes_left > 0:
                budget.resume(bytes_left)
                self._passes.append(budget)
                return True
        return False


class TimeBudget:
    """The time budget of warm-up: new steps start only within `seconds`; None means no limit.

    `clock` returns monotonic seconds.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._seconds, self._clock, self._started = seconds, clock, clock()

    def spent(self, reserved: float = 0.0) -> bool:
        """Return True if no further bucket may be started; a running step is finished.

        `reserved` seconds are for later steps.
        """
        return self._seconds is not None and self.elapsed() + reserved >= self._seconds

    def elapsed(self) -> float:
        """Return the seconds since warm-up began."""
        return self._clock() - self._started

    @property
    def reason(self) -> str:
        """Return the reason of a bucket that was left out because the time budget is spent."""
        return f"the time budget of {self._seconds:g} s was spent before its turn"
