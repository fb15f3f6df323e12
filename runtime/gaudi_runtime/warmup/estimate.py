"""How long the rest of warm-up takes, from what has been measured (docs/warmup.md, Estimate)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """One kind of step, such as compiling prompt buckets.

    `done` holds (weight, seconds) of every finished step, `left` the weights of those to come.
    """

    done: Sequence[tuple[float, float]]
    left: Sequence[float]


def eta_seconds(kinds: Iterable[Work]) -> float | None:
    """Seconds until all steps are done; 0 when none is left, None while nothing has been measured.

    A kind without a finished step is taken to cost the mean of all finished ones.
    """
    kinds = tuple(kinds)
    if not any(kind.left for kind in kinds):
        return 0.0
    measured = [seconds for kind in kinds for _, seconds in kind.done]
    if not measured:
        return None
    mean = sum(measured) / len(measured)
    return sum(_left_seconds(kind) if kind.done else mean * len(kind.left) for kind in kinds)


def _left_seconds(kind: Work) -> float:
    fixed, per_weight = _fit(kind.done)
    return sum(fixed + per_weight * weight for weight in kind.left)


def _fit(done: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds = fixed + per_weight * weight by least squares, neither part below zero."""
    mean_weight = sum(weight for weight, _ in done) / len(done)
    mean_seconds = sum(seconds for _, seconds in done) / len(done)
    spread = sum((weight - mean_weight) ** 2 for weight, _ in done)
    joint = sum((weight - mean_weight) * (seconds - mean_seconds) for weight, seconds in done)
    if spread == 0 or joint <= 0:
        return mean_seconds, 0.0
    fixed = mean_seconds - joint / spread * mean_weight
    if fixed < 0:
        return 0.0, mean_seconds / mean_weight
    return fixed, joint / spread
