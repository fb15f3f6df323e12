"""Warm-ups of the sim engine on a fake clock, which only simulated work advances: exact durations, no waiting."""

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
    """A monotonic clock in seconds that `sleep` advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the clock by `seconds`."""
        self.now += seconds


def start_on_virtual_clock(config: RuntimeConfig, clock: VirtualClock, engine: SimEngine | None = None) -> WarmupReport:
    """Return the report after a whole start-up. No other board may be created in the same loop at the same time."""
    board = ReportBoard("0" * 64, clock)
    start_engine(config, board, threading.Event(), lambda config: engine or SimEngine(config, clock.sleep), clock)
    return board.report()


class _Announcing(SimEngine):
    """An engine that stops at the first compile, when the report has only the plan."""

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        raise Stopped


def report_with_plan(config: RuntimeConfig) -> WarmupReport:
    """Return the report of a start that stops as soon as the plan is known."""
    clock = VirtualClock()
    board = ReportBoard("0" * 64, clock)
    with suppress(Stopped):
        start_engine(config, board, threading.Event(), lambda config: _Announcing(config, clock.sleep), clock)
    return board.report()
