"""Measured step times, of this warm-up and of those before it, and what they say about the rest."""

from collections.abc import Iterable
from enum import StrEnum

from gaudi_runtime.buckets.bucket import Bucket, weight
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.warmup.estimate import Samples, Work, eta_seconds


class StepKind(StrEnum):
    """What a step does: compile a shape, load its recipe from the cache instead, or capture its graph."""

    COMPILE = "compile"
    LOAD = "load"
    CAPTURE = "capture"


Step = tuple[StepKind, BucketPhase, Bucket]

FEWEST_LIKE = 3
"""Measured steps of a kind before one more is forecast: the first of a process often takes longer."""


class Pace:
    """Keeps measured times and the steps to come, per kind and phase. `block_size` in tokens per KV block."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._work = {(kind, phase): Work(Samples()) for kind in StepKind for phase in BucketPhase}

    def plan(self, steps: Iterable[Step]) -> None:
        """These steps are to come."""
        for step in steps:
            self._left(step, 1)

    def measured(self, step: Step, seconds: float) -> None:
        """A step like this took so long, now or in an earlier warm-up; whether one is to come is said by others."""
        kind, phase, bucket = step
        self._work[kind, phase].done.add(self._weigh(phase, bucket), seconds)

    def over(self, steps: Iterable[Step]) -> None:
        """These planned steps are done, or will not be done any more."""
        for step in steps:
            self._left(step, -1)

    def expect(self, kind: StepKind, phase: BucketPhase, count: int, weight: float) -> None:
        """From now on `count` steps of one kind are to come, of that weight together."""
        work = self._work[kind, phase]
        work.left, work.left_weight = count, weight

    def eta_seconds(self) -> float | None:
        """Seconds until all planned steps are over, None while nothing was measured."""
        return eta_seconds(self._work.values())

    def forecast(self, step: Step) -> float | None:
        """What steps like this one lead to expect, in seconds; None while fewer than FEWEST_LIKE were measured."""
        kind, phase, bucket = step
        done = self._work[kind, phase].done
        if done.count < FEWEST_LIKE:
            return None
        fixed, per_weight = done.line()
        return fixed + per_weight * self._weigh(phase, bucket)

    def _left(self, step: Step, sign: int) -> None:
        kind, phase, bucket = step
        work = self._work[kind, phase]
        work.left += sign
        work.left_weight += sign * self._weigh(phase, bucket)

    def _weigh(self, phase: BucketPhase, bucket: Bucket) -> float:
        return float(weight(phase, bucket, self._block_size))
