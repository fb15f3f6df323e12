"""The graphs of Dynamo and the recipes of the card: sizes for which the bridge compiles a recipe, without vLLM."""

from pathlib import Path
from typing import Any

from tests.plugin.engine import call_in_fork

WARM, COLD = ((1, 128), (1, 256), (2, 128), (2, 256), (4, 384)), ((8, 512), (16, 1024))


def count_compilations() -> list[tuple[int, int]]:
    """Return the numbers of Dynamo graphs and of recipes with weights: after warm sizes, and then after cold sizes."""
    import habana_frameworks.torch
    import torch
    from habana_frameworks.torch.hpu import metrics
    from torch._dynamo.utils import counters

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, tokens: Any) -> Any:
            return torch.relu(self.linear(tokens))

    assert habana_frameworks.torch  # Importing it registers the backend.
    layer = torch.compile(Layer(), backend="hpu_backend", options={"force_static_compile": True})
    found = []
    for sizes in (WARM, COLD):
        for size, query in sizes:
            layer(torch.zeros(size, query, 8))
        found.append((counters["stats"]["unique_graphs"], metrics.RECIPES[metrics.MODEL]))
    return found


def test_cold_size_compiles_a_recipe_but_no_dynamo_graph(tmp_path: Path) -> None:
    (graphs, recipes), (more_graphs, more_recipes) = call_in_fork(count_compilations, tmp_path)
    assert (more_graphs - graphs, more_recipes - recipes) == (0, len(COLD))
