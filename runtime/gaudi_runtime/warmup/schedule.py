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

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase, Skipped
from gaudi_runtime.memory import GraphPool
from gaudi_runtime.warmup.order import capture_order
from gaudi_runtime.warmup.phase_budget import CaptureStep, PhaseBudget


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

    def captured(self, graph_bytes: int) -> None:
        """The step's graph took so many bytes: the largest measured over the ranks of a tensor-parallel group."""
        self._passes[0].take(graph_bytes)

    def out_of_memory(self) -> None:
        """The step's graph did not fit into device memory; its phase ends."""
        self._passes[0].fail()

    def refused(self, reason: str) -> None:
        """The engine makes no graph of the step's shape; the phase goes on."""
        self._passes[0].refuse(reason)

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
            for bucket, reason in (*budget.refused.items(), *budget.left.items())
        )

    def _of(self, phase: BucketPhase) -> PhaseBudget:
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
