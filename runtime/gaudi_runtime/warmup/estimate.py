"""How long the rest of warm-up takes, from steps measured in this warm-up and in those before it.

Pure (docs/internals/warmup.md, Estimate).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan, weight
from gaudi_runtime.contract.base import Wire
from gaudi_runtime.contract.report import BucketPhase


class StepKind(StrEnum):
    """What a step does: compile a shape, load its recipe from the cache instead, or capture its graph."""

    COMPILE = "compile"
    LOAD = "load"
    CAPTURE = "capture"


Step = tuple[StepKind, BucketPhase, Bucket]

# Measured steps of a kind before one more is forecast: the first of a process often takes longer.
FEWEST_LIKE = 3


@dataclass
class Samples:
    """Sums over measured steps of one kind: enough for a straight line through (weight, seconds)."""

    # Sums and not the steps themselves: a plan may have 20,000 buckets, and every step asks for an estimate.
    count: int = 0
    weight: float = 0.0
    seconds: float = 0.0
    weight_squared: float = 0.0
    weight_seconds: float = 0.0

    def add(self, weight: float, seconds: float) -> None:
        """One more step, of `weight`, took `seconds`."""
        self.count += 1
        self.weight += weight
        self.seconds += seconds
        self.weight_squared += weight * weight
        self.weight_seconds += weight * seconds

    def line(self) -> tuple[float, float]:
        """(fixed, per weight) seconds by least squares, neither part below zero. Needs a sample."""
        mean_weight, mean_seconds = self.weight / self.count, self.seconds / self.count
        spread = self.weight_squared - self.weight * mean_weight
        joint = self.weight_seconds - self.weight * mean_seconds
        # Sums of equal weights leave a rest of rounding, which must not become a slope.
        if spread <= 1e-9 * self.weight_squared or joint <= 0:
            return mean_seconds, 0.0
        fixed = mean_seconds - joint / spread * mean_weight
        if fixed < 0:
            return 0.0, mean_seconds / mean_weight
        return fixed, joint / spread


@dataclass
class Work:
    """One kind of step, such as compiling prompt buckets: what was measured, and what is to come."""

    done: Samples
    left: int = 0
    left_weight: float = 0.0


def eta_seconds(kinds: Iterable[Work]) -> float | None:
    """Seconds until all steps are done; 0 when none is left, None while nothing has been measured."""
    kinds = tuple(kinds)
    if not any(kind.left for kind in kinds):
        return 0.0
    measured = sum(kind.done.count for kind in kinds)
    if not measured:
        return None
    # A kind without a measured step is taken to cost the mean of all measured ones.
    mean = sum(kind.done.seconds for kind in kinds) / measured
    return sum(_left_seconds(kind) if kind.done.count else mean * kind.left for kind in kinds)


def _left_seconds(kind: Work) -> float:
    fixed, per_weight = kind.done.line()
    return fixed * kind.left + per_weight * kind.left_weight


class StepPace(Wire):
    """Seconds that one bucket takes: fixed ones, and more for each unit of its weight (bucket.weight)."""

    fixed: float
    per_weight: float

    def plus(self, other: "StepPace") -> "StepPace":
        """The seconds of two steps of the same bucket."""
        return StepPace(fixed=self.fixed + other.fixed, per_weight=self.per_weight + other.per_weight)


class Pace(Wire):
    """What a warm-up takes without recipes of an earlier one: this one in seconds, a bucket by its measured steps.

    `other_seconds` are those of this warm-up that no bucket took.
    """

    seconds: float
    other_seconds: float
    prompt: StepPace
    decode: StepPace

    def seconds_of(self, plan: BucketPlan, block_size: int) -> float:
        """Estimated seconds of a whole warm-up with another plan. `block_size` in tokens per KV block."""
        seconds = self.other_seconds
        for phase, pace in ((BucketPhase.PROMPT, self.prompt), (BucketPhase.DECODE, self.decode)):
            buckets = plan.of(phase)
            weights = sum(weight(phase, each, block_size) for each in buckets)
            seconds += pace.fixed * len(buckets) + pace.per_weight * weights
        return seconds


class Estimate:
    """Measured times and the steps to come, per kind and phase. `block_size` in tokens per KV block."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._work = {(kind, phase): Work(Samples()) for kind in StepKind for phase in BucketPhase}

    def plan(self, steps: Iterable[Step]) -> None:
        """These steps are to come."""
        self._count(steps, 1)

    def measured(self, step: Step, seconds: float) -> None:
        """A step like this took so long, now or in an earlier warm-up; whether one is to come is said by others."""
        kind, phase, bucket = step
        self._work[kind, phase].done.add(self._weigh(phase, bucket), seconds)

    def over(self, steps: Iterable[Step]) -> None:
        """These planned steps are done, or will not be done any more."""
        self._count(steps, -1)

    def expect(self, kind: StepKind, phase: BucketPhase, count: int, weight: float) -> None:
        """From now on `count` steps of one kind are to come, of that weight together."""
        work = self._work[kind, phase]
        work.left, work.left_weight = count, weight

    def seconds_of(self, kind: StepKind, steps: Mapping[BucketPhase, tuple[int, float]]) -> float:
        """Seconds of so many steps of one kind with that weight together, by phase; 0 while nothing was measured."""
        asked = (Work(self._work[kind, phase].done, *some) for phase, some in steps.items())
        measured = (Work(work.done) for (other, _), work in self._work.items() if other is not kind)
        return eta_seconds((*asked, *measured)) or 0.0

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

    def pace(self, kinds: Iterable[StepKind], seconds: float, other_seconds: float) -> Pace | None:
        """What buckets take that need a step of each of these kinds; None while nothing was measured.

        The warm-up took `seconds`, of which no bucket took `other_seconds`.
        """
        measured = [work.done for work in self._work.values() if work.done.count]
        if not measured:
            return None
        # As in eta_seconds: a kind without a measured step is taken to cost the mean of all measured ones.
        mean = sum(done.seconds for done in measured) / sum(done.count for done in measured)
        paces = {phase: StepPace(fixed=0, per_weight=0) for phase in BucketPhase}
        for kind in kinds:
            for phase, pace in paces.items():
                done = self._work[kind, phase].done
                fixed, per_weight = done.line() if done.count else (mean, 0.0)
                paces[phase] = pace.plus(StepPace(fixed=fixed, per_weight=per_weight))
        prompt, decode = (paces[phase] for phase in (BucketPhase.PROMPT, BucketPhase.DECODE))
        return Pace(seconds=max(0.0, seconds), other_seconds=max(0.0, other_seconds), prompt=prompt, decode=decode)

    def _count(self, steps: Iterable[Step], sign: int) -> None:
        for kind, phase, bucket in steps:
            work = self._work[kind, phase]
            work.left += sign
            work.left_weight += sign * self._weigh(phase, bucket)

    def _weigh(self, phase: BucketPhase, bucket: Bucket) -> float:
        return float(weight(phase, bucket, self._block_size))
