"""Speculative decoding by n-grams on the plugin's own code: every step that verifies drafts is planned, and warm."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from tests.plugin.cases import COMPILE, GRAPHS, Case, configured
from tests.plugin.engine import Facts, Run, forked, in_own_process, shape
from tests.plugin.test_engine import worst_gap

DRAFTS = 3
CASES = (
    Case(Strategy.LINEAR, False, False, "llama", GRAPHS),
    Case(Strategy.EXPONENTIAL, True, False, "qwen3", COMPILE),
)
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
    return config.model_copy(update={"engine": engine, "limits": limits})


async def start_and_serve(run: Run) -> Facts:
    from habana_frameworks.torch.hpu import graphs
    from torch._dynamo.utils import counters

    report = await run.start()
    plan = make_plan(run.config.bucketing, run.config.limits, report.memory.kv_blocks if report.memory else 0)
    manager = run.worker.model_runner.bucketing_manager
    captured, compiled = Counter(graphs.CAPTURES), counters["stats"]["unique_graphs"]
    answers = run.answer(PROMPTS, TOKENS)
    batches = run.served.total()
    run.answer(PROMPTS[1:2], TOKENS)
    alone = run.served.total() - batches
    return {
        "report": report.model_dump(mode="json"),
        "prompt": [shape("prompt", each) for each in plan.prompt],
        "decode": [shape("decode", each) for each in plan.decode],
        "theirs": [shape("decode", each) for each in manager.generate_spec_decode_buckets([*plan.seeds])],
        "warmed": dict(run.warmed),
        "answers": answers,
        "alone": alone,
        "served": dict(run.served),
        "counted": await run.counted(),
        "cold": {shape(key[0].value, key[1]): count for key, count in run.engine.counters.cold.items()},
        "new_captures": dict(graphs.CAPTURES - captured),
        "new_compiles": counters["stats"]["unique_graphs"] - compiled,
    }


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    folder = tmp_path_factory.mktemp(case.name)
    return in_own_process(start_and_serve, drafting(case, checkpoints[case.family]), folder)


def decodes(counts: dict[str, int]) -> set[str]:
    return {each for each in counts if each.startswith("decode")}


def test_plan_with_drafts_is_the_plugins_own(facts: Facts) -> None:
    assert facts["theirs"] == facts["decode"]


def test_all_that_is_warmed_is_planned_and_captured(facts: Facts) -> None:
    report = facts["report"]
    assert set(facts["warmed"]) <= {*facts["prompt"], *facts["decode"]}
    assert [report[phase]["captured"] for phase in ("prompt", "decode")] == [
        len(facts["prompt"]),
        len(facts["decode"]),
    ]


def test_no_step_with_drafts_is_cold(facts: Facts) -> None:
    assert (facts["new_captures"], facts["new_compiles"], decodes(facts["cold"])) == ({}, 0, set())


def test_steps_with_drafts_are_counted_as_they_ran(facts: Facts) -> None:
    assert facts["counted"] == facts["served"]


def test_drafts_save_steps(facts: Facts) -> None:
    assert facts["alone"] < TOKENS


def test_tokens_with_drafts_are_those_of_transformers(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints[case.family], answers), tmp_path) < 0.15
