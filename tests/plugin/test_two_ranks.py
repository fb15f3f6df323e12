"""Tensor parallel over two processes of vLLM's own, each with a card; what they tell each other goes through gloo."""

import os
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from gaudi_runtime.contract.config import ParallelismConfig
from tests.plugin.cases import PAIRWISE, configured
from tests.plugin.engine import Facts, forked, in_own_process
from tests.plugin.serving import PROMPTS, planned, start_and_serve, worst_gap


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = configured(PAIRWISE[0], checkpoints["llama"])
    config = config.model_copy(update={"parallelism": ParallelismConfig(tensor=2)})
    # vLLM would start two interpreters anew, and import everything twice.
    with mock.patch.dict(os.environ, {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}):
        return in_own_process(start_and_serve, config, tmp_path_factory.mktemp("two-ranks"))


def test_every_rank_holds_and_warms_the_plan_that_we_print(facts: Facts) -> None:
    told = {phase: sorted(buckets) for phase, buckets in facts["plan"].items()}
    assert [{phase: sorted(each) for phase, each in rank["held"].items()} for rank in facts["before"]] == [told, told]
    assert [set(rank["warmed"]) for rank in facts["before"]] == [set(planned(facts))] * 2


def test_every_rank_captures_every_bucket_once(facts: Facts) -> None:
    report = facts["report"]
    assert report["prompt"]["captured"] + report["decode"]["captured"] == len(planned(facts))
    assert [rank["captures"]["HpuModelAdapter"] for rank in facts["before"]] == [len(planned(facts))] * 2


def test_serving_captures_nothing_on_any_rank(facts: Facts) -> None:
    assert [rank["captures"] for rank in facts["after"]] == [rank["captures"] for rank in facts["before"]]


def test_we_count_what_both_ranks_ran(facts: Facts) -> None:
    assert [rank["served"] for rank in facts["after"]] == [facts["counted"]] * 2
    assert facts["hits"] + sum(facts["cold"].values()) == sum(facts["counted"].values())


def test_greedy_tokens_are_those_of_transformers(facts: Facts, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints["llama"], answers), tmp_path) < 0.15
