"""The emulated card without vLLM: when it compiles a recipe, the cost of a recipe, and the workspace of a launch."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.plugin.engine import call_in_fork

WARM, COLD = ((1, 128), (1, 256), (2, 128), (2, 256), (4, 384)), ((8, 512), (16, 1024))


def count_compilations() -> list[tuple[int, int]]:
    """Return the numbers of Dynamo graphs and of their recipes: after warm sizes, and then after cold sizes."""
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
        found.append((counters["stats"]["unique_graphs"], metrics.RECIPES[metrics.GRAPH]))
    return found


def test_cold_size_compiles_a_recipe_but_no_dynamo_graph(tmp_path: Path) -> None:
    (graphs, recipes), (more_graphs, more_recipes) = call_in_fork(count_compilations, tmp_path)
    assert (more_graphs - graphs, more_recipes - recipes) == (0, len(COLD))


def compile_eager_operations() -> list[tuple[int, int]]:
    """Return the numbers of recipes and their milliseconds after each of several operations on a tensor of the card."""
    import habana_frameworks.torch.core
    import torch
    from habana_frameworks.torch.hpu import metrics

    found: list[tuple[int, int]] = []

    def count() -> None:
        figures = dict(metrics.metric_global("graph_compilation").stats())  # type: ignore[union-attr]
        found.append((int(figures["TotalNumber"]), int(figures["TotalTime"] / 1000)))

    tokens = torch.zeros(8).to("hpu")
    count()
    for size in (8, 8, 4):
        tokens[:size].add_(1).mul_(2)
        habana_frameworks.torch.core.mark_step()
        count()
    tokens.to("cpu").add_(1)
    count()
    return found


@pytest.mark.parametrize(
    ("lazy", "recipes"),
    [
        ("0", [(0, 0), (2, 30), (2, 30), (4, 60), (4, 60)]),
        ("1", [(0, 0), (1, 25), (1, 25), (2, 50), (2, 50)]),
    ],
    ids=["one recipe for each operation", "one recipe for each step"],
)
def test_new_shape_of_eager_operations_compiles_recipes(
    lazy: str, recipes: list[tuple[int, int]], tmp_path: Path
) -> None:
    with mock.patch.dict(os.environ, PT_HPU_LAZY_MODE=lazy):
        assert [tuple(each) for each in call_in_fork(compile_eager_operations, tmp_path)] == recipes


def compile_disabled_function() -> list[int]:
    """Return the number of recipes of eager operations before and after a call of a function that Dynamo skips."""
    import habana_frameworks.torch
    import torch
    from habana_frameworks.torch.hpu import metrics

    assert habana_frameworks.torch
    skipped = torch.compiler.disable(lambda tokens: tokens + 1)
    double = torch.compile(lambda tokens: skipped(tokens * 2), backend="hpu_backend")
    tokens = torch.zeros(8).to("hpu")
    before = metrics.RECIPES[metrics.EAGER]
    double(tokens)
    return [before, metrics.RECIPES[metrics.EAGER]]


def test_function_excluded_from_tracing_compiles_eager_recipes(tmp_path: Path) -> None:
    before, after = call_in_fork(compile_disabled_function, tmp_path)
    assert after - before == 1


def draw_random_numbers() -> list[list[float]]:
    """Return random numbers of two generators of the card with the same seed."""
    import habana_frameworks.torch
    import torch

    assert habana_frameworks.torch
    tokens = torch.zeros(3).to("hpu")
    return [
        tokens.exponential_(generator=torch.Generator(device="hpu").manual_seed(7)).to("cpu").tolist() for _ in range(2)
    ]


def test_generators_of_the_card_repeat_their_numbers(tmp_path: Path) -> None:
    first, second = call_in_fork(draw_random_numbers, tmp_path)
    assert first == second


def launch_sizes() -> list[int]:
    """Return the bytes that the launches of graphs with 8, 16, 17 and 18 elements take, without their buffers."""
    import habana_frameworks.torch
    import torch
    from habana_frameworks.torch import hpu, memory

    assert habana_frameworks.torch
    memory.WORKSPACE = (1000, 16)
    double = torch.compile(lambda tokens: tokens * 2, backend="hpu_backend")
    free = [hpu.mem_get_info()[0]]
    for size in (8, 16, 17, 18):
        double(torch.zeros(size))
        free.append(hpu.mem_get_info()[0])
    return [before - after for before, after in pairwise(free)]


def test_first_launch_of_a_large_shape_takes_the_workspace(tmp_path: Path) -> None:
    assert call_in_fork(launch_sizes, tmp_path) == [0, 0, 1000, 0]
