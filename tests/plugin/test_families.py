"""Families of models that differ from Llama, with the plugin's own code and random weights.

The experts' operation of the card is played (card/habana_frameworks/torch/experts.py).
"""

import os
from collections import defaultdict
from functools import partial
from pathlib import Path
from random import Random

import pytest

from gaudi_runtime.engines.vllm.workers import corrections
from tests.plugin.bursts import make_bursts, rendered_config
from tests.plugin.engine import Facts, Run, call_in_fork, run_in_fork
from tests.plugin.families import FAMILIES, logit_gaps, write_family

REQUESTS, ANSWER, COMPARED = 60, 8, 24
MODES = ("TorchCompile", "HpuGraphs") if os.environ.get("PLUGIN_MATRIX") else ("TorchCompile",)
STARTED = FAMILIES if os.environ.get("PLUGIN_MATRIX") else ("deepseek_v3", "gpt_oss", "qwen3_next")
"""In `make test`: latent attention, windows with experts, and recurrent layers with experts."""
WINDOW = " window "


async def serve_family(run: Run) -> Facts:
    """Start the engine and send bursts. Return the warm shapes, the executed shapes and some answers."""
    report = await run.start()
    before = run.ranks()[0]
    pairs: list[tuple[list[int], list[int]]] = []
    for prompts in make_bursts(Random(55), REQUESTS):  # noqa: S311 - the same load in every run
        pairs += zip(prompts, run.answer(prompts, ANSWER), strict=True)
    count_batches = await run.count_batches()
    after = run.ranks()[0]
    return {
        "skipped": [each.reason for each in report.skipped],
        "warmed": after["warmed"],
        "served": after["served"],
        "counted": count_batches,
        "cold": run.engine.counters.recompiles + sum(run.engine.counters.cold_batches.values()),
        "compiled": {
            "captures": after["captures"] != before["captures"],
            "recipes": after["recipes"]["graph"] - before["recipes"]["graph"],
            "graphs": after["compiles"] - before["compiles"],
        },
        "answers": sorted(pairs, key=lambda pair: len(pair[0]))[:: len(pairs) // COMPARED],
    }


async def serve_without_corrections(run: Run) -> Facts:
    """Serve with the plugin's own windows and layers."""
    corrections.CORRECTIONS = ()
    return await serve_family(run)


@pytest.fixture(scope="module", params=[(family, mode) for family in STARTED for mode in MODES], ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture(scope="module")
def checkpoint(case: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(case[0])
    return Path(call_in_fork(lambda: str(write_family(folder, case[0])), folder))


@pytest.fixture(scope="module")
def facts(case: tuple[str, str], checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = rendered_config(checkpoint, {"executionMode": case[1]})
    return run_in_fork(serve_family, config, tmp_path_factory.mktemp("served"))


def test_every_forward_of_a_family_is_warm(facts: Facts) -> None:
    assert (facts["skipped"], facts["cold"]) == ([], 0)
    assert sorted(set(facts["served"]) - set(facts["warmed"])) == []
    assert not any(facts["compiled"].values()), facts["compiled"]


def test_counted_shapes_are_those_of_the_tensors(facts: Facts) -> None:
    served: defaultdict[str, int] = defaultdict(int)
    for shape, count in facts["served"].items():
        served[shape.partition(WINDOW)[0]] += count
    assert facts["counted"] == served


def test_each_bucket_has_one_number_of_window_blocks(facts: Facts, case: tuple[str, str]) -> None:
    windows = defaultdict(set)
    for shape in facts["served"]:
        if shape.startswith("decode"):
            bucket, _, blocks = shape.partition(WINDOW)
            windows[bucket].add(blocks)
    assert all(len(each) == 1 for each in windows.values())
    assert all(any(each) == ("sliding_window" in FAMILIES[case[0]][1]) for each in windows.values())


def test_tokens_are_those_of_transformers(facts: Facts, checkpoint: Path, tmp_path: Path) -> None:
    worst, rounding = call_in_fork(partial(logit_gaps, checkpoint, facts["answers"]), tmp_path)
    assert worst <= 2 * rounding


def test_windows_are_wrong_and_cold_without_corrections(tmp_path: Path) -> None:
    checkpoint = Path(call_in_fork(lambda: str(write_family(tmp_path / "gemma", "gemma3_text")), tmp_path))
    facts = run_in_fork(serve_without_corrections, rendered_config(checkpoint, {}), tmp_path)
    worst, rounding = call_in_fork(partial(logit_gaps, checkpoint, facts["answers"]), tmp_path)
    assert worst > 4 * rounding
    assert facts["cold"] > 0


def test_long_prompts_of_gpt_oss_fail_without_corrections(tmp_path: Path) -> None:
    checkpoint = Path(call_in_fork(lambda: str(write_family(tmp_path / "gpt", "gpt_oss")), tmp_path))
    with pytest.raises(AssertionError, match="is invalid for input of size"):
        run_in_fork(serve_without_corrections, rendered_config(checkpoint, {"executionMode": "HpuGraphs"}), tmp_path)
