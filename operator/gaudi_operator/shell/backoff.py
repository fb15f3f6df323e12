"""Growing delays with jitter, so that many tasks that failed together do not try again together."""

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """Delays from `first` to `most` seconds; each is drawn from the upper half of its step."""

    first: float
    most: float
    failures: int = 0

    def next(self) -> float:
        """The delay after one more failure, in seconds."""
        step = min(self.most, self.first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Something worked: begin anew."""
        self.failures = 0
