"""A start and some minutes of serving on the plugin's own code, in every strategy, mode and layout of the KV cache.

Six of the sixty-four combinations run in `make test`, all of them in `make plugin`.
"""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.report import BucketPhase
from tests.plugin.cases import GRAPHS, MATRIX, PAIRWISE, Case, configured
from tests.plugin.engine import Facts, Run, forked, in_own_process, shape

CASES = MATRIX if os.environ.get("PLUGIN_MATRIX") else PAIRWISE
PROMPTS = [[(7 * row + 3 * at) % 500 for at in range(length)] for row, length in enumerate((90, 300, 17, 400, 128, 3))]
TOKENS = 20


async def start_and_serve(run: Run) -> Facts:
    from habana_frameworks.torch.hpu import graphs
    from torch._dynamo.utils import counters

    report = await run.start()
    blocks = report.memory.kv_blocks if report.memory else 0
    plan = make_plan(run.config.bucketing, run.config.limits, blocks)
    manager = run.worker.model_runner.bucketing_manager
    held = {"prompt": manager.prompt_buckets, "decode": manager.decode_buckets}
    start = {
        "report": report.model_dump(mode="json"),
        "plan": {each.value: [list(bucket) for bucket in plan.of(each)] for each in BucketPhase},
        "held": {phase: [list(map(int, bucket)) for bucket in buckets] for phase, buckets in held.items()},
        "warmed": dict(run.warmed),
        "captures": dict(graphs.CAPTURES),
    }
    compiled = counters["stats"]["unique_graphs"]
    answers = run.answer(PROMPTS, TOKENS)
    run.answer(PROMPTS[:1], 5, temperature=0.8, top_p=0.9, top_k=40)  # another sampler than the greedy one
    return start | {
        "answers": answers,
        "served": dict(run.served),
        "counted": await run.counted(),
        "hits": run.engine.counters.hits,
        "cold": {shape(key[0].value, key[1]): count for key, count in run.engine.counters.cold.items()},
        "recompiles": run.engine.counters.recompiles,
        "new_captures": dict(graphs.CAPTURES - Counter(start["captures"])),
        "new_compiles": counters["stats"]["unique_graphs"] - compiled,
    }


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = configured(case, checkpoints[case.family])
    return in_own_process(start_and_serve, config, tmp_path_factory.mktemp(case.name))


def planned(facts: Facts) -> list[str]:
    return [shape(phase, bucket) for phase, buckets in facts["plan"].items() for bucket in buckets]


def test_the_plan_that_we_print_is_what_the_plugin_holds(facts: Facts) -> None:
    assert {phase: sorted(buckets) for phase, buckets in facts["held"].items()} == {
        phase: sorted(buckets) for phase, buckets in facts["plan"].items()
    }


def test_every_bucket_is_warmed_and_nothing_else(facts: Facts) -> None:
    assert set(facts["warmed"]) == set(planned(facts))


def test_every_bucket_is_captured_once(facts: Facts, case: Case) -> None:
    report = facts["report"]
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    assert captured + len(report["skipped"]) == len(planned(facts))
    if case.mode is GRAPHS:
        assert facts["captures"].get("HpuModelAdapter") == captured


def test_sampler_and_defragmenter_are_done(facts: Facts) -> None:
    assert facts["report"]["sampler_done"]
    assert facts["report"]["defragmenter_done"]


def test_serving_captures_and_compiles_nothing_that_was_planned(facts: Facts, case: Case) -> None:
    """Without prefix caching no context is planned, and a prompt that is split meets one all the same."""
    cold = {each for each in facts["cold"] if case.prefix_caching or each.endswith("x0") or each.startswith("decode")}
    # Above the plugin's own limit of graph tokens, and told so.
    cold -= {shape(each["phase"], each["bucket"]) for each in facts["report"]["skipped"]}
    assert (facts["new_captures"], cold) == ({}, set())
    assert facts["new_compiles"] == 0 or facts["cold"]


def test_we_count_what_the_model_ran(facts: Facts) -> None:
    assert facts["counted"] == facts["served"]
    assert facts["hits"] + sum(facts["cold"].values()) == sum(facts["served"].values())


def test_greedy_tokens_are_those_of_transformers(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints[case.family], answers), tmp_path) < 0.15


def worst_gap(checkpoint: Path, answers: list[tuple[list[int], list[int]]]) -> float:
    """How far below the best a chosen token ever was, in logits, by transformers in bfloat16 as the card computes."""
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)
    worst = 0.0
    for prompt, answer in answers:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1].float()
        chosen = logits[torch.arange(len(answer)), torch.tensor(answer)]
        worst = max(worst, float((logits.max(dim=-1).values - chosen).max()))
    return worst
