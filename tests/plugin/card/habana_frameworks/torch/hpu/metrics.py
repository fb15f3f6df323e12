"""The bridge's metric `graph_compilation`: the number of compiled recipes and their compilation time in microseconds.

Compilation takes no time here, so the metric adds a cost for each recipe. The cost is invented: it only lets a large
recipe cost more than a small one. A measurement on a card should replace it.
"""

import os
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

RECIPE_MICROSECONDS, NODE_MICROSECONDS = 5_000, 10_000
"""The invented compilation time of any recipe, and of each operation in the recipe."""
GRAPH, EAGER = "graph", "eager"
"""The sources of recipes: Dynamo's graphs and HPU graphs; operations outside of any graph."""
RECIPES: Counter[str] = Counter()
"""The recipes of this process by their source."""
KEPT: dict[Hashable, str] = {}
"""The source of each recipe, in the order of their compilation."""
LAUNCHES: Counter[tuple[str, int]] = Counter()
"""The number of launches of recipes by source and number of operations."""
FAULTS = os.environ.get("PLAYED_FAULTS", "").split(",")
"""The faults of this card: "counts-nothing", "hides-free-memory", and "compiles-again" after the compile-only mode."""
_microseconds = 0


def compile_recipe(key: Hashable, source: str, nodes: int) -> None:
    """Count a launch of a recipe of `nodes` operations, unless this process has already compiled the recipe."""
    global _microseconds
    LAUNCHES[source, nodes] += 1
    if "compiles-again" in FAULTS:
        from habana_frameworks.torch.internal.bridge_config import get_pt_compile_only_mode

        key = key, get_pt_compile_only_mode()
    if key not in KEPT:
        KEPT[key] = source
        RECIPES[source] += 1
        _microseconds += RECIPE_MICROSECONDS + nodes * NODE_MICROSECONDS


class Metric:
    def __init__(self) -> None:
        self._before = RECIPES.total(), _microseconds

    def stats(self) -> list[tuple[str, float]]:
        """Return the values that the bridge reports if PT_HPU_METRICS_GC_DETAILS is not set."""
        if "counts-nothing" in FAULTS:
            return [("TotalNumber", 0), ("TotalTime", 0), ("AvgTime", 0)]
        number, time = RECIPES.total() - self._before[0], _microseconds - self._before[1]
        return [("TotalNumber", number), ("TotalTime", time), ("AvgTime", time / number if number else 0)]


_GLOBAL = Metric()


def metric_global(name: str) -> Metric | None:
    """Return a metric, or None if the bridge has no metric of this name."""
    return _GLOBAL if name == "graph_compilation" else None


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    yield Metric()
