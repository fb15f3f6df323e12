"""What all stages of one warm-up share."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, Skipped
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.signals import raise_if_stopped
from gaudi_runtime.warmup.journal import Journal
from gaudi_runtime.warmup.pace import Pace, Step
from gaudi_runtime.warmup.progress import Progress
from gaudi_runtime.warmup.time_budget import TimeBudget

MAX_REASON = 2048


@dataclass(frozen=True)
class Job:
    """One warm-up. `clock` returns monotonic seconds."""

    config: RuntimeConfig
    engine: Engine
    plan: BucketPlan
    board: ReportBoard
    stop: threading.Event
    clock: Callable[[], float]
    budget: TimeBudget
    journal: Journal
    pace: Pace
    progress: Progress

    def moved(self) -> None:
        """Something moved that the report does not show. Raises Stopped after a SIGTERM."""
        raise_if_stopped(self.stop)
        self.board.touch()

    def free(self) -> int:
        """Free bytes of the device."""
        return self.engine.memory().free

    def measured(self, step: Step, seconds: float) -> None:
        """A step took so long."""
        self.pace.measured(step, seconds)
        self.journal.write(step, seconds)


def left_out(phase: BucketPhase, bucket: Bucket, reason: str) -> Skipped:
    """A bucket that is not warm or has no graph, with the reason."""
    return Skipped(phase=phase, bucket=bucket, reason=reason[:MAX_REASON])
