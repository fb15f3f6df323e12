"""A measured figure with its limit, and the table of figures."""

import gc
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table. A figure above its limit fails the run."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the limit is exceeded."""
        return self.limit is not None and self.value > self.limit


@contextmanager
def without_pauses() -> Iterator[None]:
    """Disable garbage collection in this process during the block.

    With thousands of simulated pods, a garbage collection would pause this process for a second, and falsify the
    measured times.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def percentile(ordered: list[float], percent: int) -> float:
    """Return the smallest value that `percent` of all values do not exceed."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as lines."""
    limits = ((each, "" if each.limit is None else f"limit {each.limit:g}") for each in figures)
    return "\n".join(f"{each.name:52} {each.value:10.3f} {each.unit:12} {limit}" for each, limit in limits)
