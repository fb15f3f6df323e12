"""What warm-up runs, in which order, and what it may spend (docs/internals/warmup.md): pure.

First the order: buckets to compile, runs of the sampler, swaps of blocks, graphs to capture. Then memory for graphs and
time for new buckets, as state machines over measured amounts:

    budget = CaptureBudget(plan, pool, block_size=..., prompt_order=..., decode_order=...)
    while step := budget.next():
        phase = budget.of(step.phase)
        try:
            phase.take(engine.capture(step.phase, step.bucket))
        except DeviceOutOfMemory:
            phase.fail()

First pass: prompt with its share, then decode with its share. Second pass: each phase that is incomplete continues with
all that is left, prompt first. A bucket without a graph is served without replay (docs/internals/warmup.md, Capture
budget).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan, weight
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase, Skipped
from gaudi_runtime.memory_split import GraphPool
from gaudi_runtime.units import size
from gaudi_runtime.warmup.cover_first import cover_first

Order = tuple[Bucket, ...]


@dataclass(frozen=True)
class CompileStep:
    """The bucket to compile now; `position` counts the buckets of the phase from 1.

    A `covering` bucket is compiled and captured after the time budget as well.
    """

    phase: BucketPhase
    bucket: Bucket
    position: int
    covering: bool


def compile_steps(
    plan: BucketPlan, limits: Limits, kv_blocks: int, prompt_order: CaptureOrder, decode_order: CaptureOrder
) -> list[CompileStep]:
    """Every bucket in the order of compiling, on a device with `kv_blocks` KV blocks.

    The phases follow each other. If one of them is CoverFirst, covering sets come first, and then both phases take
    turns in proportion to their buckets, so that a warm-up that ends early leaves as large a part of each.
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
    """Largest first, which is the order of compiling of all but CoverFirst."""
    # The memory peak comes at once, and later shapes reuse its workspace.
    return _fewest_tokens_first(plan.of(phase), phase)[::-1]


GRAPHS_FIRST = {BucketPhase.PROMPT: CaptureOrder.MIN_TOKENS, BucketPhase.DECODE: CaptureOrder.MAX_BS}
"""How CoverFirst captures graphs. A bucket without a graph is compiled, so it leaves no gap: the graphs come first of
which memory holds most."""


def capture_order(plan: BucketPlan, phase: BucketPhase, order: CaptureOrder) -> Order:
    """The queue of one phase: those most worth a graph come first."""
    if order is CaptureOrder.COVER_FIRST:
        order = GRAPHS_FIRST[phase]
    if order is CaptureOrder.MIN_TOKENS:
        return _fewest_tokens_first(plan.of(phase), phase)
    if order is CaptureOrder.LARGEST_FIRST:
        return tuple(sorted(plan.of(phase), reverse=True))
    return tuple(sorted(plan.of(phase), key=lambda b: (-b.batch_size, b.query_len, b.num_blocks)))


def _fewest_tokens_first(buckets: Iterable[Bucket], phase: BucketPhase) -> Order:
    """Ascending by (batch size * length, length, batch size); the length of a decode bucket is its blocks."""
    if phase is BucketPhase.DECODE:
        return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.num_blocks, b.num_blocks, b.batch_size)))
    return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.query_len, b.query_len, b.batch_size, b.num_blocks)))


@dataclass(frozen=True)
class SamplerRun:
    """One run of the sampler; `batch_changed` says whether the batch differs from that of the run before."""

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
"""The runs for every batch size: greedy, plain random, and four filtered settings, changed and unchanged."""


def sampler_batch_sizes(decode: Sequence[Bucket]) -> tuple[int, ...]:
    """0 (the empty path) and 1, then the distinct batch sizes of the decode buckets, ascending."""
    return tuple(sorted({0, 1} | {bucket.batch_size for bucket in decode}))


SWAP_SIZES = (8, 16, 32, 64, 128, 256, 512)
"""Pairs of a swap of the defragmenter after padding, ascending; a step swaps at most the largest."""

# With fewer KV blocks there is no pair to swap, and warm-up of the defragmenter is skipped with a warning.
MIN_BLOCKS = 2


def warmup_swaps() -> tuple[int, ...]:
    """Padded sizes to swap the blocks (1, 0) at, in order."""
    # An even number of them, so that the cache ends as it began: the first size comes again where needed.
    return SWAP_SIZES if len(SWAP_SIZES) % 2 == 0 else (*SWAP_SIZES, SWAP_SIZES[0])


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
            # Before the first graph the estimate is 0: how large graphs are shows by capturing one.
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
        """The engine makes no graph of the step's shape."""
        # For good: no other share would change that, so the second pass does not ask again.
        self.refused[self._pop()] = reason

    def end(self, reason: str) -> None:
        """Leave every bucket that was not tried yet, for this reason."""
        self.leave_all_but((), reason)
        self.over = True

    def leave_all_but(self, buckets: Collection[Bucket], reason: str) -> None:
        """Leave the buckets that were not tried yet, for this reason, except these."""
        for _ in range(len(self._queue)):
            if self._queue[0] in buckets:
                self._queue.rotate(-1)
            else:
                self._leave(reason)

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
        prompt_order: CaptureOrder = CaptureOrder.COVER_FIRST,
        decode_order: CaptureOrder = CaptureOrder.COVER_FIRST,
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
        self._second_pass = deque((self._prompt, self._decode))

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

    def end(self, reason: str, but: Collection[tuple[BucketPhase, Bucket]] = ()) -> None:
        """Try no further bucket except those in `but`, and those only once; the others are left for this reason."""
        for budget in (self._prompt, self._decode):
            budget.leave_all_but({bucket for phase, bucket in but if phase is budget.phase}, reason)
        self._second_pass.clear()

    def skipped(self) -> tuple[Skipped, ...]:
        """Buckets left without a graph so far, with the reason."""
        return tuple(
            Skipped(phase=budget.phase, bucket=bucket, reason=reason)
            for budget in (self._prompt, self._decode)
            for bucket, reason in (*budget.refused.items(), *budget.left.items())
        )

    def _give_leftover(self) -> bool:
        """Let the next incomplete phase go on with every byte that is left; False when each had its second pass."""
        while self._second_pass:
            budget = self._second_pass.popleft()
            bytes_left = self._pool - self._prompt.graph_bytes - self._decode.graph_bytes
            # A phase that met the end of memory gets no second pass: it would meet it again.
            if not budget.complete and not budget.over and bytes_left > 0:
                budget.resume(bytes_left)
                self._passes.append(budget)
                return True
        return False


class TimeBudget:
    """New buckets may be begun for `seconds` from now, None without end. `clock` returns monotonic seconds."""

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._seconds, self._clock, self._started = seconds, clock, clock()

    def spent(self, reserved: float = 0.0) -> bool:
        """Whether no further bucket may be begun; one in work is finished. `reserved` seconds are for later steps."""
        return self._seconds is not None and self.elapsed() + reserved >= self._seconds

    def elapsed(self) -> float:
        """Seconds since warm-up began."""
        return self._clock() - self._started

    @property
    def reason(self) -> str:
        """Why a bucket was left out, once the budget is spent."""
        return f"the time budget of {self._seconds:g} s was spent before its turn"
