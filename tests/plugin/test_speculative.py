"""Speculative decoding by n-grams on the plugin's own code. Every step that verifies drafts is planned and warm."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from tests.plugin.cases import COMPILE, GRAPHS, Case, case_config, in_matrix
from tests.plugin.engine import Facts, Run, call_in_fork, run_in_fork, shape_name
from tests.plugin.serving import largest_logit_gap, planned_shapes

DRAFTS = 3
FEWEST = Case(Strategy.OPTIMAL, False, False, "llama", COMPILE)
DEFAULT = Case(Strategy.EXPONENTIAL, True, False, "qwen3", COMPILE)
CASES = in_matrix(DEFAULT, Case(Strategy.LINEAR, False, False, "llama", GRAPHS), FEWEST)
PERIODS = (2, 5, 11, 97)
"""Prompts with repetitions, from which drafts are made. The prompt with the longest period rarely has drafts."""
PROMPTS = [[(7 * row + 3 * (at % period)) % 500 for at in range(90 + 40 * row)] for row, period in enumerate(PERIODS)]
TOKENS = 40


def draft_config(case: Case, checkpoint: Path) -> RuntimeConfig:
    config = case_config(case, checkpoint)
    speculative = {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    settings = {**config.engine.settings, "--speculative-config": json.dumps(speculative)}
    engine = config.engine.model_copy(update={"settings": settings})
    # Compute the limit as the operator does: one step has room for a whole prompt and all drafts.
    tokens = config.limits.max_model_len + config.limits.max_num_seqs * (1 + DRAFTS)
    limits = config.limits.model_copy(update={"draft_tokens": DRAFTS, "max_num_batched_tokens": tokens})
    # Remove the traffic, because strategy Optimal rejects traffic together with drafts.
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
        "theirs": run.llm.collective_rpc(plugin_plan)[0],
        "before": before,
        "answers": answers,
        "alone": sum(after["served"].values()) - sum(together["served"].values()),
        "after": after,
        "counted": await run.count_batches(),
        "cold": {shape_name(key[0].value, key[1]): count for key, count in run.engine.counters.cold_batches.items()},
    }


def plugin_plan(wrapper: Any) -> list[list[int]]:
    """Return the buckets with drafts that the plugin plans from the buckets without drafts."""
    manager = wrapper.worker.model_runner.bucketing_manager
    return [list(map(int, each)) for each in manager.generate_spec_decode_buckets(list(manager.seed_decode_buckets))]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    folder = tmp_path_factory.mktemp(case.name)
    return run_in_fork(start_and_draft, draft_config(case, checkpoints[case.family]), folder)


def test_decode_plan_with_drafts_equals_that_of_the_plugin(facts: Facts) -> None:
    assert facts["theirs"] == facts["plan"]["decode"]


def test_every_planned_shape_is_warmed_and_captured(facts: Facts) -> None:
    report = facts["report"]
    assert set(facts["before"]["warmed"]) <= set(planned_shapes(facts))
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    # The plugin captures no graphs for the longest pieces of split prompts. The report lists these shapes as skipped.
    assert captured + len(report["skipped"]) == len(planned_shapes(facts))
    assert all(each["cause"] == "Limit" for each in report["skipped"])


def test_decode_steps_with_drafts_run_no_cold_shape(facts: Facts) -> None:
    before, after = facts["before"], facts["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert [each for each in facts["cold"] if each.startswith("decode")] == []


def test_steps_with_drafts_are_counted_under_the_executed_shape(facts: Facts) -> None:
    assert facts["counted"] == facts["after"]["served"]


def test_drafts_reduce_the_number_of_steps(facts: Facts) -> None:
    assert facts["alone"] < TOKENS


def test_tokens_with_drafts_equal_those_of_transformers(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints[case.family], answers), tmp_path) < 0.15
