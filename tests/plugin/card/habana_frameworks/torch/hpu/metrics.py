"""The bridge's metric `graph_compilation`: the number of compiled recipes and their compilation time in microseconds.

Compilation takes no time here, so the metric has a fixed duration for each kind of recipe.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

MODEL, HELPER = "model", "helper"
MICROSECONDS = {MODEL: 400_000, HELPER: 500}
"""The kinds of recipes: with the model's weights, or a helper graph such as a copy, a cast or a comparison."""
RECIPES: Counter[str] = Counter()
"""The recipes of this process by their kind."""
_KEPT: set[Hashable] = set()


def compile_recipe(key: Hashable, kind: str) -> None:
    """Count the recipe of a graph with its concrete sizes, unless this process has already compiled the recipe."""
    if key not in _KEPT:
        _KEPT.add(key)
        RECIPES[kind] += 1


class Metric:
    def __init__(self) -> None:
        self._before = RECIPES.copy()

    def stats(self) -> list[tuple[str, float]]:
        """Return the values that the bridge reports if PT_HPU_METRICS_GC_DETAILS is not set."""
        found = {kind: RECIPES[kind] - self._before[kind] for kind in MICROSECONDS}
        number = sum(found.values())
        time = sum(MICROSECONDS[kind] * count for kind, count in found.items())
        return [("TotalNumber", number), ("TotalTime", time), ("AvgTime", time / number if number else 0)]


_GLOBAL = Metric()


def metric_global(name: str) -> Metric | None:
    """Return a metric, or None if the bridge has no metric of this name."""
    return _GLOBAL if name == "graph_compilation" else None


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    yield Metric()
