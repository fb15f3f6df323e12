"""docs/internals/warmup.md, Forecast, agrees with the code."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.catalog.cards import GAUDI2, GAUDI2_RATES, GAUDI3
from gaudi_runtime.catalog.figure import Confidence
from gaudi_runtime.catalog.models.layers import READERS
from gaudi_runtime.forecast.forecast import forecast
from tests.unit.runtime.forecast.deployments import GIB, LLAMA, LOGGED, reference_with

MIB = 2**20
PAGE = (Path(__file__).parents[4] / "docs" / "internals" / "warmup.md").read_text().partition("\n## Forecast")[2]


def row(first: str) -> list[str]:
    """Return the cells of the row that begins with `first`."""
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {first}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("family", READERS)
def test_page_lists_every_family(family: str) -> None:
    listed = set(re.findall(r"\w+", PAGE.partition("### Shapes")[2].partition("\n### ")[0]))
    assert family in listed


@pytest.mark.parametrize("confidence", Confidence)
def test_page_explains_every_confidence_level(confidence: Confidence) -> None:
    assert row(confidence)[1]


def test_forecast_of_seed_000_on_the_page_is_correct() -> None:
    memory = forecast(LOGGED, LLAMA, GAUDI2).memory
    assert memory is not None
    gib = {name: f"{figure.value / GIB:.2f}" for name, figure in vars(memory).items()}
    assert row("weights, workspace")[1] == f"{gib['weights']} GiB, {memory.workspace.value / MIB:.0f} MiB"
    assert row("free, usable")[1] == f"{gib['free']}, {gib['usable']} GiB"
    assert row("graph share, KV cache")[1] == f"{gib['graphs']}, {gib['kv_cache']} GiB"


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({}, "the weight files"),
        ({"is_listed": False}, "an estimate by the number of parameters"),
        ({"file_bytes": None}, "an estimate by config.json"),
    ],
)
def test_source_of_the_weights_names_estimates(changes: dict[str, Any], source: str) -> None:
    memory = forecast(LOGGED, replace(LLAMA, **changes), GAUDI2).memory
    assert memory is not None
    assert memory.weights.source.startswith(source)


def test_blocks_of_seed_000_on_the_page_are_correct() -> None:
    blocks = forecast(reference_with(block_size=128), LLAMA, GAUDI2).kv_blocks.value
    assert row("KV blocks of 128 tokens")[1] == f"{int(blocks)}"


def test_memory_of_cards_on_the_page_equals_the_catalog() -> None:
    cells = row("memory |")
    for card, cell in zip((GAUDI2, GAUDI3), cells[1:], strict=True):
        assert card.memory is not None
        assert cell.startswith(f"{card.memory.value / GIB:g} GiB")


def test_rates_on_the_page_equal_the_catalog() -> None:
    seconds = (GAUDI2_RATES.prompt_compile_seconds, GAUDI2_RATES.decode_compile_seconds)
    assert row("compile a prompt")[1].startswith(", ".join(f"{figure.value:.2f} s" for figure in seconds))
    assert row("compile a prompt")[2] == ", ".join(f"{figure.most:.2f} s" for figure in seconds)
    graph = GAUDI2_RATES.prompt_graph_bytes_per_token
    assert row("prompt graph, per token")[1:][0] == f"{graph.value / MIB:.2f} MiB"
    assert row("prompt graph, per token")[2].startswith(f"{graph.least / 1024:.2f} KiB")
