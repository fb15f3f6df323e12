"""Delays between retries after a failure."""

import itertools
import random
from dataclasses import dataclass


class RetryDelays:
    """Retry delays that never end, because an unavailable API server will return."""

    def __iter__(self) -> "itertools.chain[float]":
        return itertools.chain((0.2, 0.5, 1.0), itertools.repeat(2.0))


@dataclass
class Backoff:
    """Exponential retry delays from `first` to `most` seconds.

    Each delay is random between half of its step and the step.
    """

    first: float
    most: float
    failures: int = 0

    def next(self) -> float:
        """Count a failure and return the delay after it, in seconds."""
        # Limit the exponent, because a large power overflows a float.
        step = min(self.most, self.first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self.failures = 0
