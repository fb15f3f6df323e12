"""Tensor parallel over two processes of vLLM's own, each with a card; what they tell each other goes through gloo."""

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
from tests.plugin.cases import DEFAULT, GRAPHS, QUICK, Case, configured, in_matrix
from tests.plugin.engine import Facts, Run, forked, in_own_process
from tests.plugin.serving import PROMPTS, planned, start_and_serve, worst_gap


def on_two_ranks(work: Callable[[Run], Any], config: RuntimeConfig, folder: Path) -> Facts:
    config = config.model_copy(update={"parallelism": ParallelismConfig(tensor=2)})
    # vLLM would start two interpreters anew, and import everything twice.
    with mock.patch.dict(os.environ, {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}):
        return in_own_process(work, config, folder)


@pytest.fixture(scope="module", params=in_matrix(DEFAULT, QUICK[0]), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    # Half the buckets, and room for all prompts in a step: pieces of split prompts are in test_engine.py.
    config = configured(case, checkpoints[case.family], pieces=False)
    config = config.model_copy(update={"limits": config.limits.model_copy(update={"max_num_batched_tokens": 1024})})
    return on_two_ranks(start_and_serve, config, tmp_path_factory.mktemp("two-ranks"))


def test_every_rank_holds_and_warms_the_plan_that_we_print(facts: Facts) -> None:
    told = {phase: sorted(buckets) for phase, buckets in facts["plan"].items()}
    assert [{phase: sorted(each) for phase, each in rank["held"].items()} for rank in facts["before"]] == [told, told]
    assert [set(rank["warmed"]) for rank in facts["before"]] == [set(planned(facts))] * 2


def test_every_rank_captures_every_bucket_once(facts: Facts, case: Case) -> None:
    report = facts["report"]
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    assert captured == len(planned(facts))
    if case.mode is GRAPHS:
        assert [rank["captures"]["HpuModelAdapter"] for rank in facts["before"]] == [captured] * 2


@pytest.mark.parametrize("made", ["captures", "compiles"])
def test_serving_captures_and_compiles_nothing_on_any_rank(facts: Facts, made: str) -> None:
    assert [rank[made] for rank in facts["after"]] == [rank[made] for rank in facts["before"]]


def test_we_count_what_both_ranks_ran(facts: Facts) -> None:
    assert [rank["served"] for rank in facts["after"]] == [facts["counted"]] * 2
    assert facts["hits"] + sum(facts["cold"].values()) == sum(facts["counted"].values())


def test_greedy_tokens_are_those_of_transformers(facts: Facts, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints["llama"], answers), tmp_path) < 0.15


IN_THE_MATRIX = pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="one more start: in make plugin only")


@pytest.fixture(scope="module")
def drafted(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    case = speculative.DEFAULT
    config = speculative.drafting(case, checkpoints[case.family])
    return on_two_ranks(speculative.start_and_draft, config, tmp_path_factory.mktemp("two-ranks-draft"))


@IN_THE_MATRIX
def test_two_ranks_verify_drafts_in_what_was_planned(drafted: Facts) -> None:
    before, after = drafted["before"], drafted["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert [each for each in drafted["cold"] if each.startswith("decode")] == []
    assert drafted["counted"] == after["served"]
    assert drafted["alone"] < speculative.TOKENS


@IN_THE_MATRIX
def test_tokens_of_two_ranks_with_drafts_are_those_of_transformers(
    drafted: Facts, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(speculative.PROMPTS, drafted["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints[speculative.DEFAULT.family], answers), tmp_path) < 0.15


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeing")
    return Path(forked(lambda: str(vision.make_seeing(folder / "gemma", vision.GEMMA)), folder))


@pytest.fixture(scope="module")
def looked(seeing: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    case = images.CASES[0]
    config = images.looking(case, seeing)
    return on_two_ranks(partial(images.start_and_look, case), config, tmp_path_factory.mktemp("two-ranks-look"))


@IN_THE_MATRIX
def test_two_ranks_warm_the_tower_and_capture_nothing_later(looked: Facts) -> None:
    before, after = looked["before"], looked["after"]
    vision = looked["report"]["vision"]
    assert (vision["planned"], vision["warmed"], vision["skipped"]) == (len(images.BATCHES), len(images.BATCHES), [])
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert (looked["hits"], looked["misses"]) == (len(images.SHOWN), 0)


@IN_THE_MATRIX
def test_answers_of_two_ranks_to_images_are_those_of_transformers(looked: Facts, seeing: Path, tmp_path: Path) -> None:
    asked = [(sizes, *answer) for sizes, answer in zip(images.SHOWN, looked["answers"], strict=True)]
    assert forked(partial(vision.worst_gap, seeing, asked), tmp_path) < 0.15
