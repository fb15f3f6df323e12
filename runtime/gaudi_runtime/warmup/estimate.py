"""The estimate of the remaining warm-up time, from steps measured in this warm-up and in earlier ones.

See docs/internals/warmup.md, Estimate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.contract.report import BucketPhase


class EstimateStepKind(StrEnum):
    """The kind of a step in an estimate: compile a shape, load its cached recipe, or capture its graph."""

    COMPILE = "compile"
    LOAD = "load"
    CAPTURE = "capture"


Step = tuple[EstimateStepKind, BucketPhase, Bucket]

# A forecast needs this many measured steps of a kind. With fewer steps, the first step of a process would distort the
# forecast, because this step often takes longer.
FEWEST_LIKE = 3


@dataclass
class EstimateSamples:
    """Sums over the measured steps of one kind, sufficient to fit a straight line through (weight, seconds)."""

    # Sums use less memory than steps: a plan may have 20,000 buckets, and every step needs an estimate.
    count: int = 0
    total_weight: float = 0.0
    total_seconds: float = 0.0
    weight_squared: float = 0.0
    weight_seconds: float = 0.0

    def add(self, weight: float, seconds: float) -> None:
        """Add a measured step of `weight` that took `seconds`."""
        self.count += 1
        self.total_weight += weight
        self.total_seconds += seconds
        self.weight_squared += weight * weight
        self.weight_seconds += weight * seconds

    def fit_line(self) -> tuple[float, float]:
        """Fit (fixed seconds, seconds per weight) by least squares. Both results are at least 0. Needs a sample."""
        mean_weight, mean_seconds = self.total_weight / self.count, self.total_seconds / self.count
        variance = self.weight_squared - self.total_weight * mean_weight
        covariance = self.weight_seconds - self.total_weight * mean_seconds
        # If all weights are equal, rounding errors still make the sums differ. These errors must not count as a slope.
        if variance <= 1e-9 * self.weight_squared or covariance <= 0:
            return mean_seconds, 0.0
        fixed_seconds = mean_seconds - covariance / variance * mean_weight
        if fixed_seconds < 0:
            return 0.0, mean_seconds / mean_weight
        return fixed_seconds, covariance / variance


@dataclass
class EstimatedWork:
    """The measured and the remaining steps of one kind, such as compiling prompt buckets."""

    samples: EstimateSamples
    remaining: int = 0
    remaining_weight: float = 0.0


def estimate_eta_seconds(kinds: Iterable[EstimatedWork]) -> float | None:
    """Estimate the seconds until all warm-up steps are done.

    Return 0 if no step is left, and None if no step was measured.
    """
    kinds = tuple(kinds)
    if not any(kind.remaining for kind in kinds):
        return 0.0
    measured_steps = sum(kind.samples.count for kind in kinds)
    if not measured_steps:
        return None
    # If no step of a kind was measured, its steps are assumed to take the mean time of all measured steps.
    mean_seconds = sum(kind.samples.total_seconds for kind in kinds) / measured_steps
    return sum(_remaining_seconds(kind) if kind.samples.count else mean_seconds * kind.remaining for kind in kinds)


def _remaining_seconds(kind: EstimatedWork) -> float:
    fixed_seconds, seconds_per_weight = kind.samples.fit_line()
    return fixed_seconds * kind.remaining + seconds_per_weight * kind.remaining_weight


class Estimate:
    """The estimate of one warm-up: measured times and remaining steps, per kind and phase.

    `block_size` is in tokens per KV block.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._work = {
            (kind, phase): EstimatedWork(EstimateSamples()) for kind in EstimateStepKind for phase in BucketPhase
        }

    def add_steps(self, steps: Iterable[Step]) -> None:
        """Add these steps to the remaining steps."""
        self._change_remaining(steps, 1)

    def record_seconds(self, step: Step, seconds: float) -> None:
        """Add the measured time of a step from this warm-up or an earlier warm-up.

        The remaining steps do not change.
        """
        kind, phase, bucket = step
        self._work[kind, phase].samples.add(self._weigh(phase, bucket), seconds)

    def remove_steps(self, steps: Iterable[Step]) -> None:
        """Remove these steps from the remaining steps, because they are done or were left out."""
        self._change_remaining(steps, -1)

    def set_remaining(self, kind: EstimateStepKind, phase: BucketPhase, count: int, weight: float) -> None:
        """Set the remaining steps of one kind: `count` steps with `weight` in total."""
        work = self._work[kind, phase]
        work.remaining, work.remaining_weight = count, weight

    def seconds_of(self, kind: EstimateStepKind, steps: Mapping[BucketPhase, tuple[int, float]]) -> float:
        """Estimate the seconds of steps of one kind, given count and weight by phase; 0 if no step was measured."""
        requested = (EstimatedWork(self._work[kind, phase].samples, *totals) for phase, totals in steps.items())
        measured = (
            EstimatedWork(work.samples) for (other_kind, _), work in self._work.items() if other_kind is not kind
        )
        return estimate_eta_seconds((*requested, *measured)) or 0.0

    def eta_seconds(self) -> float | None:
        """Estimate the seconds until all remaining steps are done; None if no step was measured."""
        return estimate_eta_seconds(self._work.values())

    def forecast(self, step: Step) -> float | None:
        """Estimate the seconds of one step; None if fewer than FEWEST_LIKE steps of its kind were measured."""
        kind, phase, bucket = step
        samples = self._work[kind, phase].samples
        if samples.count < FEWEST_LIKE:
            return None
        fixed_seconds, seconds_per_weight = samples.fit_line()
        return fixed_seconds + seconds_per_weight * self._weigh(phase, bucket)

    def _change_remaining(self, steps: Iterable[Step], sign: int) -> None:
        for kind, phase, bucket in steps:
            work = self._work[kind, phase]
            work.remaining += sign
            work.remaining_weight += sign * self._weigh(phase, bucket)

    def _weigh(self, phase: BucketPhase, bucket: Bucket) -> float:
        return float(bucket_weight(phase, bucket, self._block_size))
