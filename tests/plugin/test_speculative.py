"""Speculative decoding by n-grams on the plugin's own code: every step that verifies drafts is planned, and warm."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from tests.plugin.cases import COMPILE, GRAPHS, Case, configured, in_matrix
from tests.plugin.engine import Facts, Run, forked, in_own_process, shape
from tests.plugin.serving import planned, worst_gap

DRAFTS = 3
FEWEST = Case(Strategy.OPTIMAL, False, False, "llama", COMPILE)
DEFAULT = Case(Strategy.EXPONENTIAL, True, False, "qwen3", COMPILE)
CASES = in_matrix(DEFAULT, Case(Strategy.LINEAR, False, False, "llama", GRAPHS), FEWEST)
PERIODS = (2, 5, 11, 97)
"""Texts that repeat themselves are drafted from; those of the longest period hardly."""
PROMPTS = [[(7 * row + 3 * (at % period)) % 500 for at in range(90 + 40 * row)] for row, period in enumerate(PERIODS)]
TOKENS = 40


def drafting(case: Case, checkpoint: Path) -> RuntimeConfig:
    config = configured(case, checkpoint)
    told = {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    settings = {**config.engine.settings, "--speculative-config": json.dumps(told)}
    engine = config.engine.model_copy(update={"settings": settings})
    # Room for a prompt and all drafts in one step, as the operator demands.
    tokens = config.limits.max_model_len + config.limits.max_num_seqs * (1 + DRAFTS)
    limits = config.limits.model_copy(update={"draft_tokens": DRAFTS, "max_num_batched_tokens": tokens})
    # With drafts, strategy Optimal takes no traffic.
    policy = config.bucketing.model_copy(update={"optimal": None})
    return config.model_copy(update={"engine": engine, "limits": limits, "bucketing": policy})


async def start_and_draft(run: Run) -> Facts:
    report = await run.start()
    plan = make_plan(run.config.bucketing, run.config.limits, report.memory.kv_blocks if report.memory else 0)
    before = run.ranks()[0]
    answers = run.answer(PROMPTS, TOKENS)
    together = run.ranks()[0]
    run.answer(PROMPTS[1:2], TOKENS)
    after = run.ranks()[0]
    return {
        "report": report.model_dump(mode="json"),
        "plan": {each.value: [list(bucket) for bucket in plan.buckets_of(each)] for each in BucketPhase},
        "theirs": run.llm.collective_rpc(plan_of_the_plugin)[0],
        "before": before,
        "answers": answers,
        "alone": sum(after["served"].values()) - sum(together["served"].values()),
        "after": after,
        "counted": await run.counted(),
        "cold": {shape(key[0].value, key[1]): count for key, count in run.engine.counters.cold.items()},
    }


def plan_of_the_plugin(wrapper: Any) -> list[list[int]]:
    """What it would make of the buckets without drafts."""
    manager = wrapper.worker.model_runner.bucketing_manager
    return [list(map(int, each)) for each in manager.generate_spec_decode_buckets(list(manager.seed_decode_buckets))]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    folder = tmp_path_factory.mktemp(case.name)
    return in_own_process(start_and_draft, drafting(case, checkpoints[case.family]), folder)


def test_plan_with_drafts_is_the_plugins_own(facts: Facts) -> None:
    assert facts["theirs"] == facts["plan"]["decode"]


def test_all_that_is_warmed_is_planned_and_captured(facts: Facts) -> None:
    report = facts["report"]
    assert set(facts["before"]["warmed"]) <= set(planned(facts))
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    # The plugin itself leaves the longest pieces without a graph.
    assert captured + len(report["skipped"]) == len(planned(facts))
    assert all(each["reason"] == "vLLM runs this shape without a graph" for each in report["skipped"])


def test_no_step_with_drafts_is_cold(facts: Facts) -> None:
    before, after = facts["before"], facts["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert [each for each in facts["cold"] if each.startswith("decode")] == []


def test_steps_with_drafts_are_counted_as_they_ran(facts: Facts) -> None:
    assert facts["counted"] == facts["after"]["served"]


def test_drafts_save_steps(facts: Facts) -> None:
    assert facts["alone"] < TOKENS


def test_tokens_with_drafts_are_those_of_transformers(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints[case.family], answers), tmp_path) < 0.15
