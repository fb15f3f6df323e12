"""How long the rest of warm-up takes, from what has been measured (docs/warmup.md, Estimate)."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Samples:
    """Sums over measured steps of one kind: enough for a straight line through (weight, seconds).

    Sums and not the steps themselves: a plan may have 20,000 buckets, and every step asks for an estimate.
    """

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
    """Seconds until all steps are done; 0 when none is left, None while nothing has been measured.

    A kind without a measured step is taken to cost the mean of all measured ones.
    """
    kinds = tuple(kinds)
    if not any(kind.left for kind in kinds):
        return 0.0
    measured = sum(kind.done.count for kind in kinds)
    if not measured:
        return None
    mean = sum(kind.done.seconds for kind in kinds) / measured
    return sum(_left_seconds(kind) if kind.done.count else mean * kind.left for kind in kinds)


def _left_seconds(kind: Work) -> float:
    fixed, per_weight = kind.done.line()
    return fixed * kind.left + per_weight * kind.left_weight
