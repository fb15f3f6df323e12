"""The bridge's metric `graph_compilation`: recipes that were compiled, and the microseconds that this took.

No recipe takes any time here, so each is given a duration by what is in it.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

MODEL, HELPER = "model", "helper"
MICROSECONDS = {MODEL: 400_000, HELPER: 500}
"""A recipe with the model's weights, and one of a helper graph, such as a copy, a cast or a comparison."""
RECIPES: Counter[str] = Counter()
"""Recipes of this process by their kind."""
_KEPT: set[Hashable] = set()


def compile_recipe(key: Hashable, kind: str) -> None:
    """Compile the recipe of a graph and its concrete sizes, unless this process has it."""
    if key not in _KEPT:
        _KEPT.add(key)
        RECIPES[kind] += 1


class Metric:
    def __init__(self) -> None:
        self._before = RECIPES.copy()

    def stats(self) -> list[tuple[str, float]]:
        """As the bridge reports them if PT_HPU_METRICS_GC_DETAILS is not set."""
        found = {kind: RECIPES[kind] - self._before[kind] for kind in MICROSECONDS}
        number = sum(found.values())
        time = sum(MICROSECONDS[kind] * count for kind, count in found.items())
        return [("TotalNumber", number), ("TotalTime", time), ("AvgTime", time / number if number else 0)]


_GLOBAL = Metric()


def metric_global(name: str) -> Metric | None:
    """None for a metric that the bridge does not know."""
    return _GLOBAL if name == "graph_compilation" else None


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    yield Metric()
