"""The compiles of a worker: Dynamo's graphs, the bridge's recipes, and which of them are recompilations.

The plugin compiles graphs with symbolic sizes through Dynamo, and the bridge compiles a recipe for each concrete size.
The bridge's metric `graph_compilation` counts these recipes in every execution mode, but not the time that Dynamo needs
on the host. A recipe that is loaded from disk is not compiled, so it is not counted (docs/internals/vllm.md, Counts).
"""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from gaudi_runtime.contract.compiles import COMPILE_BOUNDS, RECOMPILATION_SECONDS, StepPart

Row = list[Any]
"""A row in the form of JSON."""


@dataclass(frozen=True, slots=True)
class CompileTotals:
    """The recipes of the bridge and the graphs of Dynamo in a worker, and their total times in seconds."""

    recipes: int = 0
    seconds: float = 0.0
    graphs: int = 0
    graph_seconds: float = 0.0

    def __add__(self, other: "CompileTotals") -> "CompileTotals":
        return CompileTotals(
            self.recipes + other.recipes,
            self.seconds + other.seconds,
            self.graphs + other.graphs,
            self.graph_seconds + other.graph_seconds,
        )

    def __sub__(self, other: "CompileTotals") -> "CompileTotals":
        return CompileTotals(
            self.recipes - other.recipes,
            self.seconds - other.seconds,
            self.graphs - other.graphs,
            self.graph_seconds - other.graph_seconds,
        )

    @property
    def is_recompilation(self) -> bool:
        """Whether these compiles count as a recompilation of a waiting batch: any graph, or recipes that take long."""
        return self.graphs > 0 or self.seconds > RECOMPILATION_SECONDS


NOTHING = CompileTotals()

Compiles = Callable[[], CompileTotals]
"""Reads everything that was compiled since the process started, without waiting."""


class DynamoClock:
    """The seconds that Dynamo has spent on compiles in this process. Dynamo calls the two callbacks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started_at = 0.0

    def start(self, *_: Any) -> None:
        """Begin a compile."""
        self._started_at = time.perf_counter()

    def end(self, *_: Any) -> None:
        """End a compile."""
        self.seconds += time.perf_counter() - self._started_at


def watch_dynamo(load: Callable[[str], Any] = import_module) -> Compiles:
    """Return a function that reads the graphs and the seconds of Dynamo. Without callbacks, the seconds are 0."""
    counters, clock = load("torch._dynamo.utils").counters, DynamoClock()
    try:
        handler = load("torch._dynamo.callback").callback_handler
        handler.register_start_callback(clock.start)
        handler.register_end_callback(clock.end)
    except (ImportError, AttributeError):
        pass
    return lambda: CompileTotals(graphs=int(counters["stats"]["unique_graphs"]), graph_seconds=clock.seconds)


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
        """Return rows [stage, recipes, seconds, counts by COMPILE_BOUNDS] since the last call, and reset the counts."""
        stages, self._stages = self._stages, defaultdict(_Stage)
        return [
            [stage, times.total.recipes, round(times.total.seconds, 6), times.counts] for stage, times in stages.items()
        ]


class StepCompiles:
    """The recompilations that steps of a worker waited for, by part of the step and kind of request."""

    def __init__(self) -> None:
        self._totals: dict[tuple[StepPart, str], tuple[int, float]] = {}

    def add(self, part: StepPart, kind: str, compile_totals: CompileTotals) -> None:
        """Count these compiles if they are a recompilation."""
        if compile_totals.is_recompilation:
            count, seconds = self._totals.get((part, kind), (0, 0.0))
            seconds += compile_totals.seconds + compile_totals.graph_seconds
            self._totals[part, kind] = count + 1, seconds

    def pop_rows(self) -> list[Row]:
        """Return rows [part, kind, count, seconds] since the last call, and reset the counts."""
        totals, self._totals = self._totals, {}
        return [[str(part), kind, count, round(seconds, 6)] for (part, kind), (count, seconds) in totals.items()]
