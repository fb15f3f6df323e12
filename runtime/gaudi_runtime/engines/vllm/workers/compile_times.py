"""The compile times of a worker: the recipes that the bridge compiles, and which of them are recompilations.

A card does not compile Dynamo's graphs. The plugin compiles one graph with symbolic sizes, and the bridge compiles a
recipe for each concrete size. The bridge's metric `graph_compilation` counts these recipes in every execution mode. A
recipe that is loaded from disk is not compiled, so it is not counted (docs/internals/vllm.md, Counts).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gaudi_runtime.contract.report import COMPILE_BOUNDS, RECOMPILATION_SECONDS

Row = list[Any]
"""[stage, recipes, seconds, counts by COMPILE_BOUNDS], in the form of JSON."""


@dataclass(frozen=True, slots=True)
class CompileTotals:
    """The number of recipes that a worker's bridge has compiled, and their total compile time in seconds."""

    recipes: int = 0
    seconds: float = 0.0

    def __add__(self, other: "CompileTotals") -> "CompileTotals":
        return CompileTotals(self.recipes + other.recipes, self.seconds + other.seconds)

    def __sub__(self, other: "CompileTotals") -> "CompileTotals":
        return CompileTotals(self.recipes - other.recipes, self.seconds - other.seconds)

    @property
    def is_recompilation(self) -> bool:
        """Whether these compiles take long enough to count as a recompilation of a waiting batch."""
        return self.seconds > RECOMPILATION_SECONDS


NOTHING = CompileTotals()

Compiles = Callable[[], CompileTotals]
"""Reads everything that was compiled since the process started, without waiting."""


@dataclass
class _Stage:
    total: CompileTotals = NOTHING
    counts: list[int] = field(default_factory=lambda: [0] * (len(COMPILE_BOUNDS) + 1))


class CompileTimes:
    """The distribution of a worker's compile times by stage. It is used to adjust the recompilation threshold."""

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = defaultdict(_Stage)

    def add(self, stage: str, compile_totals: CompileTotals) -> None:
        """Count the recipes that were compiled for one bucket or batch, if there are any."""
        if compile_totals.recipes:
            times = self._stages[stage]
            times.total += compile_totals
            times.counts[bisect_left(COMPILE_BOUNDS, compile_totals.seconds)] += 1

    def pop_rows(self) -> list[Row]:
        """Return a row for each stage since the last call, in order of the first compile, and reset the counts."""
        stages, self._stages = self._stages, defaultdict(_Stage)
        return [
            [stage, times.total.recipes, round(times.total.seconds, 6), times.counts] for stage, times in stages.items()
        ]
