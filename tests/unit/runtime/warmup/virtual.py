"""Warm-ups of the sim engine on a clock that only its simulated work moves: exact times, and no waiting."""

import threading
from contextlib import suppress

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, WarmupReport
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine


class VirtualClock:
    """Monotonic seconds that `sleep` moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self.now += seconds


def virtual_start(config: RuntimeConfig, clock: VirtualClock, engine: SimEngine | None = None) -> WarmupReport:
    """The report after a whole start-up. Create no other board in the same loop at the same time."""
    board = ReportBoard("0" * 64, clock)
    start_engine(config, board, threading.Event(), lambda config: engine or SimEngine(config, clock.sleep), clock)
    return board.report()


class _Announcing(SimEngine):
    """Stops at the first compile, when the plan is published and nothing else."""

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        raise Stopped


def announced(config: RuntimeConfig) -> WarmupReport:
    """The report as it is once the plan is known."""
    clock = VirtualClock()
    board = ReportBoard("0" * 64, clock)
    with suppress(Stopped):
        start_engine(config, board, threading.Event(), lambda config: _Announcing(config, clock.sleep), clock)
    return board.report()
