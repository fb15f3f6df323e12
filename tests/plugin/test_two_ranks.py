"""Tensor parallelism over two processes of vLLM, each with a card. The collectives of the processes use gloo."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gaudi_runtime.contract.config import ParallelismConfig, RuntimeConfig
from tests.plugin import test_speculative as speculative
from tests.plugin import test_vision as images
from tests.plugin import vision
from tests.plugin.cases import DEFAULT, GRAPHS, QUICK, Case, case_config, in_matrix
from tests.plugin.engine import Facts, Run, call_in_fork, run_in_fork
from tests.plugin.serving import PROMPTS, largest_logit_gap, planned_shapes, start_and_serve


def run_on_two_ranks(work: Callable[[Run], Any], config: RuntimeConfig, folder: Path) -> Facts:
    config = config.model_copy(update={"parallelism": ParallelismConfig(tensor=2)})
    # `fork` saves time. With `spawn`, vLLM would start two new interpreters, and each interpreter would import all
    # modules again.
    with mock.patch.dict(os.environ, {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}):
        return run_in_fork(work, config, folder)


@pytest.fixture(scope="module", params=in_matrix(DEFAULT, QUICK[0]), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    # Use half of the buckets to save time. Each step has room for all prompts, so no prompt is split. test_engine.py
    # covers split prompts.
    config = case_config(case, checkpoints[case.family], pieces=False)
    config = config.model_copy(update={"limits": config.limits.model_copy(update={"max_num_batched_tokens": 1024})})
    return run_on_two_ranks(start_and_serve, config, tmp_path_factory.mktemp("two-ranks"))


def test_every_rank_has_and_warms_the_printed_buckets(facts: Facts) -> None:
    planned = {phase: sorted(buckets) for phase, buckets in facts["plan"].items()}
    assert [{phase: sorted(each) for phase, each in rank["held"].items()} for rank in facts["before"]] == [
        planned,
        planned,
    ]
    assert [set(rank["warmed"]) for rank in facts["before"]] == [set(planned_shapes(facts))] * 2


def test_every_rank_captures_every_bucket_once(facts: Facts, case: Case) -> None:
    report = facts["report"]
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    assert captured == len(planned_shapes(facts))
    if case.mode is GRAPHS:
        assert [rank["captures"]["HpuModelAdapter"] for rank in facts["before"]] == [captured] * 2


@pytest.mark.parametrize("result", ["captures", "compiles"])
def test_serving_causes_no_capture_or_compile_on_any_rank(facts: Facts, result: str) -> None:
    assert [rank[result] for rank in facts["after"]] == [rank[result] for rank in facts["before"]]


def test_counters_equal_the_forwards_of_both_ranks(facts: Facts) -> None:
    assert [rank["served"] for rank in facts["after"]] == [facts["counted"]] * 2
    assert facts["hits"] + sum(facts["cold"].values()) == sum(facts["counted"].values())


def test_greedy_tokens_equal_those_of_transformers(facts: Facts, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints["llama"], answers), tmp_path) < 0.15


IN_THE_MATRIX = pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="one more start: in make plugin only")


@pytest.fixture(scope="module")
def drafted(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    case = speculative.DEFAULT
    config = speculative.draft_config(case, checkpoints[case.family])
    return run_on_two_ranks(speculative.start_and_draft, config, tmp_path_factory.mktemp("two-ranks-draft"))


@IN_THE_MATRIX
def test_two_ranks_verify_drafts_in_planned_shapes(drafted: Facts) -> None:
    before, after = drafted["before"], drafted["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert [each for each in drafted["cold"] if each.startswith("decode")] == []
    assert drafted["counted"] == after["served"]
    assert drafted["alone"] < speculative.TOKENS


@IN_THE_MATRIX
def test_tokens_of_two_ranks_with_drafts_equal_those_of_transformers(
    drafted: Facts, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(speculative.PROMPTS, drafted["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints[speculative.DEFAULT.family], answers), tmp_path) < 0.15


@pytest.fixture(scope="module")
def vision_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeing")
    return Path(call_in_fork(lambda: str(vision.make_vision_checkpoint(folder / "gemma", vision.GEMMA)), folder))


@pytest.fixture(scope="module")
def vision_facts(vision_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    case = images.CASES[0]
    config = images.vision_config(case, vision_checkpoint)
    return run_on_two_ranks(
        partial(images.start_and_answer_images, case), config, tmp_path_factory.mktemp("two-ranks-look")
    )


@IN_THE_MATRIX
def test_two_ranks_warm_the_vision_tower_before_serving(vision_facts: Facts) -> None:
    before, after = vision_facts["before"], vision_facts["after"]
    vision = vision_facts["report"]["vision"]
    assert (vision["planned"], vision["warmed"], vision["skipped"]) == (len(images.BATCHES), len(images.BATCHES), [])
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert (vision_facts["hits"], vision_facts["misses"]) == (len(images.SHOWN), 0)


@IN_THE_MATRIX
def test_answers_of_two_ranks_to_images_equal_those_of_transformers(
    vision_facts: Facts, vision_checkpoint: Path, tmp_path: Path
) -> None:
    asked = [(sizes, *answer) for sizes, answer in zip(images.SHOWN, vision_facts["answers"], strict=True)]
    assert call_in_fork(partial(vision.largest_logit_gap, vision_checkpoint, asked), tmp_path) < 0.15
