"""The common state of all stages of one warm-up."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Engine
from gaudi_runtime.process.signals import raise_if_stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.warmup.estimate import Estimate, Step
from gaudi_runtime.warmup.journal import Journal
from gaudi_runtime.warmup.progress import Progress
from gaudi_runtime.warmup.schedule import TimeBudget


@dataclass(frozen=True)
class WarmupJob:
    """The common state of all stages of one warm-up. `clock` returns monotonic seconds."""

    config: RuntimeConfig
    engine: Engine
    plan: BucketPlan
    board: ReportBoard
    stop: threading.Event
    clock: Callable[[], float]
    time_budget: TimeBudget
    journal: Journal
    estimate: Estimate
    progress: Progress

    def record_progress(self) -> None:
        """Restart the stall clock. Raises Stopped after a SIGTERM."""
        raise_if_stopped(self.stop)
        self.board.restart_stall_clock()

    def record_seconds(self, step: Step, seconds: float) -> None:
        """Record the seconds of a step."""
        self.estimate.record_seconds(step, seconds)
        self.journal.write(step, seconds)
