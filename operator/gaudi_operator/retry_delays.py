"""Delays between retries after a failure."""

import itertools
import random
from dataclasses import dataclass


class RetryDelays:
    """Retry delays that never end, because an unavailable API server will return."""

    def __iter__(self) -> "itertools.chain[float]":
        return itertools.chain((0.2, 0.5, 1.0), itertools.repeat(2.0))


@dataclass
class ExponentialRetryDelays:
    """Exponential retry delays from `first_seconds` to `max_seconds`.

    Each delay is random between half of its step and the step.
    """

    first_seconds: float
    max_seconds: float
    failures: int = 0

    def next(self) -> float:
        """Count a failure and return the delay after it, in seconds."""
        # Limit the exponent, because a large power overflows a float.
        step_seconds = min(self.max_seconds, self.first_seconds * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return step_seconds * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self.failures = 0
