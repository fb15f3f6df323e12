"""Walk the schedule of a plan against an engine, in one worker thread: compile, sampler, defragmenter, capture.

Order, budget, progress and stop are decided here; an engine only does what one verb says (docs/warmup.md).
"""

import logging
import threading
import time
from collections.abc import Callable

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, Phase, Skipped
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.errors import DeviceOutOfMemory
from gaudi_runtime.memory import Split, graph_pool
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.warmup.defragmenter import MIN_BLOCKS
from gaudi_runtime.warmup.order import compile_order
from gaudi_runtime.warmup.pace import CAPTURE, COMPILE, Pace
from gaudi_runtime.warmup.progress import GIB, Progress
from gaudi_runtime.warmup.sampler import sampler_batch_sizes
from gaudi_runtime.warmup.schedule import CaptureBudget, CaptureStep

log = logging.getLogger("gaudi_runtime.warmup")

EAGER_MODES = (ExecutionMode.LAZY, ExecutionMode.EAGER)


class Stopped(Exception):
    """SIGTERM came; start-up ended between two steps."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Raises Stopped once `stop` is set."""
    if stop.is_set():
        raise Stopped


class WarmupRunner:
    """One warm-up. `stop` is looked at between steps: a compile cannot be interrupted.

    `split` and `kv_blocks` are what the KV cache was allocated with; `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        engine: Engine,
        plan: BucketPlan,
        split: Split,
        kv_blocks: int,
        board: ReportBoard,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._engine, self._plan = config, engine, plan
        self._split, self._kv_blocks = split, kv_blocks
        self._board, self._stop, self._clock = board, stop, clock
        self._captures = engine.captures_graphs and config.warmup.enabled
        kinds = (COMPILE, CAPTURE) if self._captures else (COMPILE,)
        self._pace = Pace(plan, kinds, config.limits.block_size)
        self._progress = Progress(board, plan, self._captures)

    def run(self) -> None:
        """Warm everything that the configuration asks for. Raises Stopped."""
        self._progress.planned()
        if not self._config.warmup.enabled:
            log.warning("Warm-up is switched off: the first request of every shape waits for its compile.")
            self._board.update(warmup_skipped=True)
            return
        started, free = self._clock(), self._engine.memory().free
        self._compile()
        self._warm_sampler()
        self._warm_defragmenter()
        if self._captures:
            self._capture()
        taken = free - self._engine.memory().free
        seconds = self._clock() - started
        log.info("Warmup finished in %.0f secs, allocated %.2f GiB of device memory", seconds, taken / GIB)

    def _compile(self) -> None:
        self._board.update(phase=Phase.COMPILING)
        for phase in BucketPhase:
            for position, bucket in enumerate(compile_order(self._plan, phase), start=1):
                raise_if_stopped(self._stop)
                self._progress.warming(phase, bucket, position, self._engine.memory().free)
                self._compile_one(phase, bucket)

    def _compile_one(self, phase: BucketPhase, bucket: Bucket) -> None:
        started = self._clock()
        try:
            self._engine.warm(phase, bucket)
        except DeviceOutOfMemory as error:
            reason = f"the device ran out of memory while it was compiled: {error}"
            self._progress.skipped(Skipped(phase=phase, bucket=bucket, reason=reason[:2048]))
            return
        self._pace.step(COMPILE, phase, bucket, self._clock() - started)
        self._progress.warmed(phase, self._pace.eta_seconds())

    def _warm_sampler(self) -> None:
        if not self._config.warmup.sampler or self._config.engine.execution_mode in EAGER_MODES:
            return
        self._board.update(phase=Phase.SAMPLER)
        for batch_size in sampler_batch_sizes(self._plan.decode):
            raise_if_stopped(self._stop)
            self._engine.warm_sampler(batch_size, self._board.touch)
        self._board.update(sampler_done=True)

    def _warm_defragmenter(self) -> None:
        if not self._config.warmup.defragmenter:
            return
        if self._kv_blocks < MIN_BLOCKS:
            log.warning("The defragmenter is not warmed up: %d KV blocks leave no pair to swap.", self._kv_blocks)
            return
        raise_if_stopped(self._stop)
        self._board.update(phase=Phase.DEFRAGMENTER)
        self._engine.warm_defragmenter(self._board.touch)
        self._board.update(defragmenter_done=True)

    def _capture(self) -> None:
        self._board.update(phase=Phase.CAPTURING)
        settings = self._config.warmup
        budget = CaptureBudget(
            self._plan,
            graph_pool(self._engine.memory().free, self._split.margin, settings.prompt_ratio),
            block_size=self._config.limits.block_size,
            prompt_order=settings.prompt_order,
            decode_order=settings.decode_order,
        )
        while step := budget.next():
            raise_if_stopped(self._stop)
            self._capture_one(step, budget)
        for phase in BucketPhase:
            self._progress.capture_over(phase, budget.buckets(phase), budget.graph_bytes(phase))
        self._progress.skipped(*budget.skipped())

    def _capture_one(self, step: CaptureStep, budget: CaptureBudget) -> None:
        started = self._clock()
        self._progress.capturing(step.phase, step.bucket, step.position, self._engine.memory().free)
        try:
            budget.captured(self._engine.capture(step.phase, step.bucket))
        except DeviceOutOfMemory as error:
            log.warning("Out of device memory at %s bucket %s: %s", step.phase, list(step.bucket), error)
            budget.out_of_memory()
            return
        self._pace.step(CAPTURE, step.phase, step.bucket, self._clock() - started)
        self._progress.captured(step.phase, budget.graph_bytes(step.phase), self._pace.eta_seconds())
